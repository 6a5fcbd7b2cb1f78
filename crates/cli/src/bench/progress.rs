//! What is shown while a study runs: a bar on a terminal, a line for each cell elsewhere.

use carve_bench::Watch;
use carve_mig_manager::write_whole;
use carve_study::{Cell, Figures, Outcome, Study};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

/// Shows a study that runs, and keeps it after every cell.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    file: PathBuf,
}

impl Progress {
    pub(crate) fn new(file: PathBuf) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            let style =
                ProgressStyle::with_template("{bar:28} {pos}/{len}  {elapsed}, {eta} left  {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─"));
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Progress { bar, file }
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }
}

impl Watch for Progress {
    fn begins(&mut self, cell: &Cell, done: usize, of: usize) {
        if let Some(bar) = &self.bar {
            bar.set_length(of as u64);
            bar.set_position(done as u64);
            bar.set_message(cell.to_string());
        }
    }

    fn ended(&mut self, cell: &Cell, study: &Study) -> io::Result<()> {
        if let Some(outcome) = study.outcome(cell) {
            self.say(&format!("{cell:<28} {}", said(cell, outcome)));
        }
        write_whole(&self.file, study.json().as_bytes())
    }

    fn trouble(&mut self, words: &str) {
        self.say(&format!("warning: {words}"));
    }
}

/// What came of a cell, in a few words.
fn said(cell: &Cell, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Skipped(why) => format!("skipped: {why}"),
        Outcome::Failed(why) => format!("failed: {why}"),
        Outcome::Measured(Figures::Overhead(overhead)) => {
            format!("a round of the loop {} ns, an empty launch {} µs", overhead.round_ns, overhead.launch_us)
        }
        Outcome::Measured(Figures::Shared(shared)) => {
            let unit = cell.workloads().first().map_or("", |workload| workload.unit().word());
            let slowest = shared.tenants.iter().filter_map(|tenant| tenant.p99_ms).map(|p99| p99.median);
            let p99 = slowest.fold(0.0, f64::max);
            let latency = if p99 > 0.0 { format!(", p99 {p99:.2} ms") } else { String::new() };
            format!("{} {unit} together{latency}", shared.total)
        }
        Outcome::Measured(Figures::Beside(beside)) => {
            let left = beside.beside.rate.median / beside.alone.rate.median * 100.0;
            format!("{left:.0} % of what it does alone")
        }
        Outcome::Measured(Figures::Happened(happened)) => match &happened.error {
            None => format!("the neighbour works on ({})", happened.offender),
            Some(error) => format!("the neighbour dies: {error}"),
        },
    }
}

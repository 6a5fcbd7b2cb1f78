//! `carve gpus --watch`: a terminal shows the newest state in place; anything else gets every change, and nothing while there is none.

use super::{Machine, Seen, machine, short, wide};
use crate::args::{GpusArgs, Output};
use crate::failure::{Failure, Outcome};
use crate::machine::Chosen;
use crate::print;
use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::tcgetwinsize;
use serde::Serialize;
use std::io::{IsTerminal, stdout};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// How often to look whether somebody still reads: a reader that goes should not be waited for until the next look at the GPUs.
const READER: Duration = Duration::from_millis(200);

/// The machine at a known time.
#[derive(Serialize)]
struct Dated<'a> {
    at: String,
    #[serde(flatten)]
    machine: &'a Machine,
}

/// Looks again and again until somebody ends it, or nobody reads any more.
pub(super) fn watch(chosen: &Chosen, args: &GpusArgs) -> Outcome {
    let trouble = |error: std::io::Error| Failure::new(format!("can not listen for signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(trouble)?;
    runtime.block_on(async {
        let mut ends = Ends {
            interrupt: signal(SignalKind::interrupt()).map_err(trouble)?,
            terminate: signal(SignalKind::terminate()).map_err(trouble)?,
        };
        let mut shown = Shown::new(args);
        shown.show(chosen, &Seen::look(chosen)?)?;
        while ends.pause(args.interval).await {
            match Seen::look(chosen) {
                Ok(seen) => shown.show(chosen, &seen)?,
                // A driver that is being exchanged answers again in a while.
                Err(failure) => shown.talk(&format!("the GPUs can not be read: {}", failure.message))?,
            }
        }
        shown.end()
    })
}

/// What ends it.
struct Ends {
    interrupt: Signal,
    terminate: Signal,
}

impl Ends {
    /// Waits for the next look; false where there shall be none.
    async fn pause(&mut self, interval: Duration) -> bool {
        let next = Instant::now() + interval;
        while Instant::now() < next {
            if !somebody_reads() {
                return false;
            }
            tokio::select! {
                _ = self.interrupt.recv() => return false,
                _ = self.terminate.recv() => return false,
                () = tokio::time::sleep_until(next.min(Instant::now() + READER)) => {}
            }
        }
        somebody_reads()
    }
}

/// Whether the other end of standard output is there: while nothing changes nothing is written, and a write would not tell.
fn somebody_reads() -> bool {
    let out = stdout();
    let mut fds = [PollFd::new(&out, PollFlags::empty())];
    match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
        Ok(_) => !fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL),
        Err(_) => true,
    }
}

/// What was printed last.
struct Shown {
    output: Output,
    interval: Duration,
    /// Whether it is drawn in place.
    in_place: bool,
    /// Lines of the last drawing.
    drawn: usize,
    last: Option<String>,
    said: Vec<String>,
}

impl Shown {
    fn new(args: &GpusArgs) -> Self {
        let table = matches!(args.output, Output::Table | Output::Wide);
        Shown {
            output: args.output,
            interval: args.interval,
            in_place: table && stdout().is_terminal(),
            drawn: 0,
            last: None,
            said: Vec::new(),
        }
    }

    fn show(&mut self, chosen: &Chosen, seen: &Seen) -> Outcome {
        for trouble in &seen.used.troubles {
            self.talk(trouble)?;
        }
        if seen.used.troubles.is_empty() {
            self.said.clear();
        }
        let now = Timestamp::now();
        match self.output {
            Output::Table => self.table(now, short(seen)),
            Output::Wide => self.table(now, wide(chosen.host.as_ref(), seen)),
            Output::Json | Output::Yaml => self.data(now, &machine(chosen, seen)),
        }
    }

    fn table(&mut self, now: Timestamp, table: String) -> Outcome {
        let time = now.strftime("%H:%M:%S UTC");
        if self.in_place {
            let head = format!("{time}, every {} s; Ctrl-C ends", self.interval.as_secs_f64());
            let frame = fit(&format!("{head}\n{table}"), size());
            let back = if self.drawn == 0 { String::new() } else { format!("\x1b[{}F\x1b[J", self.drawn) };
            self.drawn = frame.lines().count();
            return print::out(&format!("{back}{frame}"));
        }
        if self.last.as_ref() == Some(&table) {
            return Ok(());
        }
        let between = if self.last.is_some() { "\n" } else { "" };
        print::out(&format!("{between}{time}\n{table}"))?;
        self.last = Some(table);
        Ok(())
    }

    fn data(&mut self, now: Timestamp, machine: &Machine) -> Outcome {
        let text = serde_json::to_string(machine).map_err(|error| Failure::of(&error))?;
        if self.last.as_ref() == Some(&text) {
            return Ok(());
        }
        let dated = Dated { at: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), machine };
        match self.output {
            Output::Yaml => {
                let document = serde_saphyr::to_string(&dated).map_err(|error| Failure::of(&error))?;
                print::out(&format!("---\n{document}"))?;
            }
            _ => {
                let line = serde_json::to_string(&dated).map_err(|error| Failure::of(&error))?;
                print::out(&format!("{line}\n"))?;
            }
        }
        self.last = Some(text);
        Ok(())
    }

    /// Says something on stderr, once until it is over.
    fn talk(&mut self, text: &str) -> Outcome {
        if !self.said.iter().any(|said| said == text) {
            eprintln!("{text}");
            self.said.push(text.to_owned());
            // What was said stands below the drawing, so the next one begins below that.
            self.drawn = 0;
        }
        Ok(())
    }

    fn end(&self) -> Outcome {
        // The terminal has written ^C behind the cursor.
        if self.in_place { print::out("\n") } else { Ok(()) }
    }
}

/// Columns and rows of the terminal, where it tells them.
fn size() -> Option<(usize, usize)> {
    let size = tcgetwinsize(stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 1).then(|| (usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// Cuts text to a terminal, so that it can be drawn over: a line that wraps or scrolls away could not be reached again.
fn fit(text: &str, size: Option<(usize, usize)>) -> String {
    let Some((columns, rows)) = size else { return text.to_owned() };
    let cut = |line: &str| {
        if line.chars().count() <= columns {
            return line.to_owned();
        }
        line.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
    };
    let lines: Vec<&str> = text.lines().collect();
    // The cursor stands on a line of its own.
    let room = rows.saturating_sub(1).max(1);
    let mut fitting: Vec<String> = lines.iter().take(room).map(|line| cut(line)).collect();
    if lines.len() > room {
        fitting.pop();
        fitting.push(cut(&format!("… and {} more lines", lines.len() - room + 1)));
    }
    fitting.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::fit;

    #[test]
    fn a_drawing_never_takes_more_than_the_terminal_has() {
        let text = "GPU   NAME\n0     NVIDIA H200\n1     é\n2     x\n";
        assert_eq!(fit(text, None), text);
        assert_eq!(fit(text, Some((80, 24))), text);
        assert_eq!(fit(text, Some((80, 5))), text, "four lines, and one for the cursor");
        assert_eq!(fit(text, Some((8, 24))), "GPU   N…\n0     N…\n1     é\n2     x\n");
        assert_eq!(fit(text, Some((80, 4))), "GPU   NAME\n0     NVIDIA H200\n… and 2 more lines\n");
        assert_eq!(fit(text, Some((5, 2))), "… an…\n");
    }
}

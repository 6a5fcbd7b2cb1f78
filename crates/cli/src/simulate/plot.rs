//! Draws runs: how full the fleet got, how fragmented, and who was turned away.

use crate::failure::Outcome;
use crate::simulate::args::PlotFormat;
use crate::simulate::picture::{self, Area, Failed, Picture};
use crate::simulate::report::of;
use crate::simulate::runs::Run;
use carve_placement::Policy;
use carve_simulator::measured::Point;
use plotters::backend::DrawingBackend;
use plotters::chart::{ChartBuilder, ChartContext, SeriesLabelPosition};
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::types::RangedCoordf64;
use plotters::element::{PathElement, Polygon, Rectangle, Text};
use plotters::style::{BLACK, Color, IntoFont, RGBColor, WHITE};
use std::ops::Range;
use std::path::Path;

/// Colours that people with any colour vision tell apart, in the order policies are named.
const COLOURS: [RGBColor; 9] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
    RGBColor(140, 100, 40),
    RGBColor(0, 0, 0),
];

type Plane = Cartesian2d<RangedCoordf64, RangedCoordf64>;
type Chart<'a, DB> = ChartContext<'a, DB, Plane>;
type Drawn<DB> = Result<(), Failed<DB>>;

/// How many times as large everything is drawn.
#[derive(Clone, Copy)]
struct Pen(u32);

impl Pen {
    fn wide(self, width: u32) -> u32 {
        width * self.0
    }

    fn far(self, distance: i32) -> i32 {
        distance * self.0 as i32
    }

    fn font(self, size: u32) -> (&'static str, u32) {
        ("sans-serif", size * self.0)
    }
}

/// What can be drawn.
enum Figure<'a> {
    /// A line with its band for each policy, from a place on; the labels are title, what is across and what is upward.
    Lines { labels: [&'static str; 3], left: f64, bands: Vec<Band> },
    /// Who was turned away.
    Failures { policies: &'a [Policy], runs: &'a [Run] },
}

impl Picture for Figure<'_> {
    fn draw<DB: DrawingBackend>(&self, area: &Area<DB>, times: u32) -> Drawn<DB> {
        let pen = Pen(times);
        match self {
            Figure::Lines { labels, left, bands } => lines(area, pen, *labels, *left, bands),
            Figure::Failures { policies, runs } => failures(area, pen, policies, runs),
        }
    }
}

/// Writes the figures into a folder, which is made if it is not there.
pub(crate) fn plot(folder: &Path, format: PlotFormat, policies: &[Policy], runs: &[Run]) -> Outcome {
    let bands = |figure: fn(&Point) -> f64| -> Vec<Band> {
        policies.iter().map(|policy| Band::of(*policy, &of(runs, *policy), figure)).collect()
    };
    let asked = "% of all GPUs asked for";
    let allocation = Figure::Lines {
        labels: ["GPUs in use", asked, "% of all GPUs in use"],
        left: begin(runs),
        bands: bands(|point| point.allocated),
    };
    let fragmentation = Figure::Lines {
        labels: ["Idle GPUs that the usual workload can not use", asked, "% of idle GPUs"],
        left: 0.0,
        bands: bands(|point| point.fragmentation),
    };
    let figures = [
        ("allocation", allocation),
        ("fragmentation", fragmentation),
        ("failures", Figure::Failures { policies, runs }),
    ];
    picture::write(folder, format, &figures)
}

/// Draws what changes through time.
pub(crate) fn plot_through_time(
    folder: &Path,
    format: PlotFormat,
    used: Vec<Band>,
    waiting: Vec<Band>,
) -> Outcome {
    let lines = |title, upward, bands| Figure::Lines { labels: [title, "hours", upward], left: 0.0, bands };
    let figures = [
        ("utilisation", lines("GPUs in use", "% of the GPUs there are", used)),
        ("waiting", lines("Pods that wait", "pods", waiting)),
    ];
    picture::write(folder, format, &figures)
}

/// Where it becomes interesting: a little before the first claim is turned away. Until then all lines are one.
fn begin(runs: &[Run]) -> f64 {
    let first = runs.iter().filter_map(|run| run.figures.first_failure).fold(f64::INFINITY, f64::min);
    if first.is_finite() { ((first - 10.0) / 10.0).floor().max(0.0) * 10.0 } else { 0.0 }
}

/// A figure of a policy against arrivals: the mean of all seeds, the least and the most.
#[derive(Debug, PartialEq)]
pub(crate) struct Band {
    pub(crate) policy: Policy,
    /// At which place: mean, least and most.
    pub(crate) points: Vec<(f64, [f64; 3])>,
}

impl Band {
    fn of(policy: Policy, runs: &[&Run], figure: impl Fn(&Point) -> f64) -> Self {
        // Runs end an arrival apart; the band ends where the first of them does.
        let length = runs.iter().map(|run| run.figures.curve.len()).min().unwrap_or(0);
        let points = (0..length).map(|at| {
            let figures: Vec<f64> = runs.iter().map(|run| figure(&run.figures.curve[at])).collect();
            (at as f64, spread(&figures))
        });
        Band { policy, points: points.collect() }
    }
}

/// Mean, least and most.
pub(crate) fn spread(figures: &[f64]) -> [f64; 3] {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    [figures.iter().sum::<f64>() / figures.len().max(1) as f64, least, most]
}

fn lines<DB: DrawingBackend>(
    area: &Area<DB>,
    pen: Pen,
    [title, across, upward]: [&str; 3],
    left: f64,
    bands: &[Band],
) -> Drawn<DB> {
    let points = || bands.iter().flat_map(|band| &band.points).filter(|(at, _)| *at >= left);
    let right = points().map(|(at, _)| *at).fold(left + 1.0, f64::max);
    let top = points().map(|(_, [_, _, most])| *most).fold(1.0, f64::max);
    let bottom = if left > 0.0 { points().map(|(_, [_, least, _])| *least).fold(top, f64::min) } else { 0.0 };
    let mut chart = chart(area, pen, title, left..right, bottom..top + (top - bottom) * 0.05)?;
    chart
        .configure_mesh()
        .x_desc(across)
        .y_desc(upward)
        .x_label_formatter(&short)
        .y_label_formatter(&short)
        .label_style(pen.font(15))
        .axis_desc_style(pen.font(17))
        .light_line_style(WHITE)
        .draw()?;
    let coloured = || bands.iter().zip(COLOURS.into_iter().cycle());
    let shown = |band: &Band| -> Vec<(f64, [f64; 3])> {
        band.points.iter().filter(|(at, _)| *at >= left).copied().collect()
    };
    // All lines lie upon all bands: no band hides another's line.
    for (band, colour) in coloured() {
        let points = shown(band);
        let upper = points.iter().map(|(at, [_, _, most])| (*at, *most));
        let lower = points.iter().rev().map(|(at, [_, least, _])| (*at, *least));
        chart
            .draw_series([Polygon::new(upper.chain(lower).collect::<Vec<_>>(), colour.mix(0.15).filled())])?;
    }
    for (band, colour) in coloured() {
        let means: Vec<(f64, f64)> = shown(band).iter().map(|(at, [mean, ..])| (*at, *mean)).collect();
        let line = colour.stroke_width(pen.wide(2));
        chart
            .draw_series([PathElement::new(means, line)])?
            .label(band.policy.name())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + pen.far(18), y)], line));
    }
    legend(&mut chart, pen)
}

/// A number on an axis: as many digits as tell it from its neighbours.
fn short(value: &f64) -> String {
    if value.fract().abs() < 1e-9 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// Claims turned away, by size, the policies beside each other.
fn failures<DB: DrawingBackend>(area: &Area<DB>, pen: Pen, policies: &[Policy], runs: &[Run]) -> Drawn<DB> {
    let means: Vec<[(&str, f64); 5]> = policies
        .iter()
        .map(|policy| {
            let own = of(runs, *policy);
            let mut sums =
                carve_simulator::measured::TurnedAway::default().named().map(|(name, _)| (name, 0.0));
            for run in &own {
                for (sum, (_, count)) in sums.iter_mut().zip(run.figures.turned_away.named()) {
                    sum.1 += count as f64 / own.len() as f64;
                }
            }
            sums
        })
        .collect();
    let most = means.iter().flatten().map(|(_, mean)| *mean).fold(1.0, f64::max);
    let mut chart = chart(area, pen, "Claims turned away, by size", 0.0..5.0, 0.0..most * 1.1)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .x_desc("CPU only, a part of a GPU, one GPU, several, eight or more")
        .y_desc("claims, mean of all seeds")
        .y_label_formatter(&short)
        .label_style(pen.font(15))
        .axis_desc_style(pen.font(17))
        .light_line_style(WHITE)
        .draw()?;
    let width = 0.8 / policies.len().max(1) as f64;
    for (index, ((policy, means), colour)) in
        policies.iter().zip(&means).zip(COLOURS.into_iter().cycle()).enumerate()
    {
        let left = |size: usize| size as f64 + 0.1 + index as f64 * width;
        let some = means.iter().enumerate().filter(|(_, (_, mean))| *mean > 0.0);
        let bars = some.map(|(size, (_, mean))| {
            Rectangle::new([(left(size), 0.0), (left(size) + width * 0.9, *mean)], colour.filled())
        });
        chart.draw_series(bars)?.label(policy.name()).legend(move |(x, y)| {
            Rectangle::new([(x, y - pen.far(5)), (x + pen.far(14), y + pen.far(5))], colour.filled())
        });
        let figures = means.iter().enumerate().map(|(size, (_, mean))| {
            Text::new(short(mean), (left(size), mean + most * 0.04), pen.font(14).into_font())
        });
        chart.draw_series(figures)?;
    }
    for (size, (name, _)) in carve_simulator::measured::TurnedAway::default().named().iter().enumerate() {
        let label = Text::new(*name, (size as f64 + 0.35, most * 1.09), pen.font(16).into_font());
        chart.draw_series([label])?;
    }
    legend(&mut chart, pen)
}

fn chart<'a, DB: DrawingBackend>(
    area: &'a Area<DB>,
    pen: Pen,
    title: &str,
    across: Range<f64>,
    upward: Range<f64>,
) -> Result<Chart<'a, DB>, Failed<DB>> {
    ChartBuilder::on(area)
        .caption(title, pen.font(24))
        .margin(pen.wide(16))
        .x_label_area_size(pen.wide(48))
        .y_label_area_size(pen.wide(64))
        .build_cartesian_2d(across, upward)
}

fn legend<'a, DB: DrawingBackend + 'a>(chart: &mut Chart<'a, DB>, pen: Pen) -> Drawn<DB> {
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::MiddleRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .label_font(pen.font(16))
        .legend_area_size(pen.wide(30))
        .margin(pen.wide(8))
        .draw()
}

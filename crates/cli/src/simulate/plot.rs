//! Draws runs as SVG files: how full the fleet got, how fragmented, and who was turned away.

use crate::failure::{Failure, Outcome};
use crate::simulate::report::of;
use crate::simulate::runs::Run;
use carve_placement::Policy;
use carve_simulator::measured::Point;
use plotters::backend::SVGBackend;
use plotters::chart::{ChartBuilder, ChartContext, SeriesLabelPosition};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
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
const SIZE: (u32, u32) = (960, 540);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Failed = DrawingAreaErrorKind<std::io::Error>;
type Drawn = Result<(), Failed>;

/// Writes the figures into a folder, which is made if it is not there.
pub(crate) fn plot(folder: &Path, policies: &[Policy], runs: &[Run]) -> Outcome {
    let bands = |figure: fn(&Point) -> f64| -> Vec<Band> {
        policies.iter().map(|policy| Band::of(*policy, &of(runs, *policy), figure)).collect()
    };
    let asked = "% of all GPUs asked for";
    let figures: [(&str, Result<String, _>); 3] = [
        (
            "allocation.svg",
            drawing(|area| {
                let labels = ["GPUs in use", asked, "% of all GPUs in use"];
                lines(area, labels, begin(runs), &bands(|point| point.allocated))
            }),
        ),
        (
            "fragmentation.svg",
            drawing(|area| {
                let labels = ["Idle GPUs that the usual workload can not use", asked, "% of idle GPUs"];
                lines(area, labels, 0.0, &bands(|point| point.fragmentation))
            }),
        ),
        ("failures.svg", drawing(|area| failures(area, policies, runs))),
    ];
    write(folder, figures)
}

/// Draws what changes through time.
pub(crate) fn plot_through_time(folder: &Path, used: &[Band], waiting: &[Band]) -> Outcome {
    let hours = "hours";
    let figures = [
        (
            "utilisation.svg",
            drawing(|area| lines(area, ["GPUs in use", hours, "% of the GPUs there are"], 0.0, used)),
        ),
        ("waiting.svg", drawing(|area| lines(area, ["Pods that wait", hours, "pods"], 0.0, waiting))),
    ];
    write(folder, figures)
}

fn write<const N: usize>(folder: &Path, figures: [(&str, Result<String, Failed>); N]) -> Outcome {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::new(format!("{}: can not write it: {error}", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    for (name, figure) in figures {
        let path = folder.join(name);
        let svg = figure.map_err(|error| failed(&path, &error))?;
        crate::output::put(&path, svg.as_bytes()).map_err(|error| failed(&path, &error))?;
    }
    Ok(())
}

/// Where it becomes interesting: a little before the first claim is turned away. Until then all lines are one.
fn begin(runs: &[Run]) -> f64 {
    let first = runs.iter().filter_map(|run| run.figures.first_failure).fold(f64::INFINITY, f64::min);
    if first.is_finite() { ((first - 10.0) / 10.0).floor().max(0.0) * 10.0 } else { 0.0 }
}

fn drawing(draw: impl Fn(&Area<'_>) -> Drawn) -> Result<String, Failed> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        draw(&area)?;
        area.present()?;
    }
    Ok(svg)
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

/// A line with its band for each policy, from a place on; the labels are title, what is across and what is upward.
fn lines(area: &Area<'_>, [title, across, upward]: [&str; 3], left: f64, bands: &[Band]) -> Drawn {
    let points = || bands.iter().flat_map(|band| &band.points).filter(|(at, _)| *at >= left);
    let right = points().map(|(at, _)| *at).fold(left + 1.0, f64::max);
    let top = points().map(|(_, [_, _, most])| *most).fold(1.0, f64::max);
    let bottom = if left > 0.0 { points().map(|(_, [_, least, _])| *least).fold(top, f64::min) } else { 0.0 };
    let mut chart = chart(area, title, left..right, bottom..top + (top - bottom) * 0.05)?;
    chart
        .configure_mesh()
        .x_desc(across)
        .y_desc(upward)
        .x_label_formatter(&short)
        .y_label_formatter(&short)
        .label_style(("sans-serif", 14))
        .light_line_style(WHITE)
        .draw()?;
    for (band, colour) in bands.iter().zip(COLOURS.into_iter().cycle()) {
        let points: Vec<&(f64, [f64; 3])> = band.points.iter().filter(|(at, _)| *at >= left).collect();
        let upper = points.iter().map(|(at, [_, _, most])| (*at, *most));
        let lower = points.iter().rev().map(|(at, [_, least, _])| (*at, *least));
        chart
            .draw_series([Polygon::new(upper.chain(lower).collect::<Vec<_>>(), colour.mix(0.2).filled())])?;
        let means: Vec<(f64, f64)> = points.iter().map(|(at, [mean, ..])| (*at, *mean)).collect();
        chart
            .draw_series([PathElement::new(means, colour.stroke_width(2))])?
            .label(band.policy.name())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    legend(&mut chart)
}

/// A number on an axis: as many digits as tell it from its neighbours.
fn short(value: &f64) -> String {
    if value.fract().abs() < 1e-9 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// Claims turned away, by size, the policies beside each other.
fn failures(area: &Area<'_>, policies: &[Policy], runs: &[Run]) -> Drawn {
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
    let mut chart = chart(area, "Claims turned away, by size", 0.0..5.0, 0.0..most * 1.1)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .x_desc("CPU only, a part of a GPU, one GPU, several, eight or more")
        .y_desc("claims, mean of all seeds")
        .y_label_formatter(&short)
        .label_style(("sans-serif", 14))
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
        chart
            .draw_series(bars)?
            .label(policy.name())
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled()));
        let figures = means.iter().enumerate().map(|(size, (_, mean))| {
            Text::new(format!("{mean:.0}"), (left(size), mean + most * 0.035), ("sans-serif", 12).into_font())
        });
        chart.draw_series(figures)?;
    }
    for (size, (name, _)) in carve_simulator::measured::TurnedAway::default().named().iter().enumerate() {
        let label = Text::new(*name, (size as f64 + 0.35, most * 1.09), ("sans-serif", 15).into_font());
        chart.draw_series([label])?;
    }
    legend(&mut chart)
}

fn chart<'a, 'b>(
    area: &'a Area<'b>,
    title: &str,
    across: Range<f64>,
    upward: Range<f64>,
) -> Result<Chart<'a, 'b>, Failed> {
    ChartBuilder::on(area)
        .caption(title, ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .build_cartesian_2d(across, upward)
}

fn legend<'a, 'b: 'a>(chart: &mut Chart<'a, 'b>) -> Drawn {
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::MiddleRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .label_font(("sans-serif", 15))
        .draw()
}

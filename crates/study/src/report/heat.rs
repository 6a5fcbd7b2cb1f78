//! A picture of who hurts whom: darker where less is kept, and the number in each field.

use super::Picture;
use super::canvas::{FAINT, INK, ON_DARK, ON_LIGHT, RULE, Side, drawn, width_of};
use super::interference::Matrix;
use super::reading::{times_text, titled};
use plotters::style::RGBColor;

const LEFT: f64 = 190.0;
const TOP: f64 = 92.0;
const FIELD: (f64, f64) = (148.0, 62.0);

/// Draws a strategy.
pub(super) fn picture(matrix: &Matrix<'_>) -> Picture {
    let title = titled(matrix.study, matrix.strategy.title(), "what a tenant keeps beside a neighbour");
    Picture {
        name: format!("interference-{}", matrix.strategy),
        svg: draw(matrix, &title),
        title: format!("{title}, in percent of its rate alone; the table below has the numbers"),
    }
}

/// From nearly white where all is kept to dark brown where nothing is; one hue, so that only its depth counts.
fn shade(kept: f64) -> RGBColor {
    const DEPTHS: [(f64, f64, f64); 5] = [
        (127.0, 39.0, 4.0),
        (200.0, 75.0, 10.0),
        (241.0, 130.0, 60.0),
        (253.0, 190.0, 140.0),
        (255.0, 243.0, 232.0),
    ];
    let at = (kept / 100.0).clamp(0.0, 1.0) * (DEPTHS.len() - 1) as f64;
    let below = (at.floor() as usize).min(DEPTHS.len() - 2);
    let part = at - below as f64;
    let (from, to) = (DEPTHS[below], DEPTHS[below + 1]);
    let mix = |from: f64, to: f64| (from + (to - from) * part).round() as u8;
    RGBColor(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

/// How bright a colour looks, from 0 to 1, as WCAG counts it.
fn brightness(colour: RGBColor) -> f64 {
    let part = |value: u8| {
        let value = f64::from(value) / 255.0;
        if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * part(colour.0) + 0.7152 * part(colour.1) + 0.0722 * part(colour.2)
}

/// Letters that can be read on a colour.
fn letters_on(ground: RGBColor) -> RGBColor {
    // Where black and white have the same contrast: (b + .05)² = 1.05 × .05.
    if brightness(ground) > 0.18 { ON_LIGHT } else { ON_DARK }
}

fn draw(matrix: &Matrix<'_>, title: &str) -> String {
    let columns = matrix.aggressors.len() as f64;
    let bottom = TOP + matrix.victims.len() as f64 * FIELD.1;
    let width = (LEFT + columns * FIELD.0).max(width_of(title, 18.0)) + 20.0;
    drawn((width, bottom + 36.0), |canvas| {
        canvas.bold((16.0, 24.0), title, 18.0, Side::After, INK);
        canvas.words((LEFT, 54.0), "beside", 13.0, Side::After, FAINT);
        for (column, aggressor) in matrix.aggressors.iter().enumerate() {
            let x = LEFT + (column as f64 + 0.5) * FIELD.0;
            canvas.words((x, TOP - 16.0), aggressor.title(), 13.0, Side::Around, INK);
        }
        for (row, victim) in matrix.victims.iter().enumerate() {
            let y = TOP + row as f64 * FIELD.1;
            let middle = y + FIELD.1 / 2.0;
            canvas.words((LEFT - 12.0, middle), victim.title(), 13.0, Side::Before, INK);
            for (column, aggressor) in matrix.aggressors.iter().enumerate() {
                let x = LEFT + column as f64 * FIELD.0;
                let centre = x + FIELD.0 / 2.0;
                let (from, to) = ((x + 1.0, y + 1.0), (x + FIELD.0 - 1.0, y + FIELD.1 - 1.0));
                let Some(harm) = matrix.harm(*victim, *aggressor) else {
                    // An empty frame: white alone would look like "all is kept".
                    canvas.line(from, (to.0, from.1), 1, RULE);
                    canvas.line((from.0, to.1), to, 1, RULE);
                    canvas.line(from, (from.0, to.1), 1, RULE);
                    canvas.line((to.0, from.1), to, 1, RULE);
                    let why = matrix.why_not(*victim, *aggressor);
                    canvas.words((centre, middle), why, 13.0, Side::Around, FAINT);
                    continue;
                };
                let ground = shade(harm.kept);
                let letters = letters_on(ground);
                canvas.rectangle(from, to, ground);
                let lift = if harm.p99.is_some() { 10.0 } else { 0.0 };
                let kept = format!("{:.0} %", harm.kept);
                canvas.bold((centre, middle - lift), &kept, 18.0, Side::Around, letters);
                if let Some(p99) = harm.p99 {
                    let text = format!("p99 {}", times_text(p99));
                    canvas.words((centre, middle + 14.0), &text, 13.0, Side::Around, letters);
                }
            }
        }
        canvas.words((16.0, bottom + 18.0), "100 %: as without a neighbour", 13.0, Side::After, FAINT);
    })
}

#[cfg(test)]
mod tests {
    use super::{brightness, letters_on, picture, shade};
    use crate::Strategy;
    use crate::report::example::example;
    use crate::report::interference::Matrix;

    #[test]
    fn less_is_always_darker_and_letters_can_be_read() {
        let mut last = -1.0;
        for kept in 0..=100 {
            let ground = shade(f64::from(kept));
            assert!(brightness(ground) > last, "{kept}");
            last = brightness(ground);
            let (one, other) = (last + 0.05, brightness(letters_on(ground)) + 0.05);
            let contrast = one.max(other) / one.min(other);
            assert!(contrast >= 4.5, "{kept}: {contrast}");
        }
        assert_eq!(shade(130.0), shade(100.0));
    }

    #[test]
    fn the_number_is_in_the_field() {
        let study = example();
        let drawn = picture(&Matrix::of(&study, Strategy::TimeSlicing).unwrap());
        assert!(drawn.svg.contains("\n42 %\n") && drawn.svg.contains("\np99 3.00×\n"), "{}", drawn.svg);
        let drawn = picture(&Matrix::of(&study, Strategy::Limiter).unwrap());
        assert!(drawn.svg.contains("\nnot run\n"), "{}", drawn.svg);
    }
}

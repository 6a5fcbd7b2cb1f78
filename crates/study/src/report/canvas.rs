//! Paper to draw on: lines, boxes and letters, as SVG.
//!
//! Letters stay letters: whoever looks has fonts, so none is measured or drawn here. Rooms for words are estimated.

use plotters::backend::{DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontFamily, FontStyle, IntoFont, RGBColor, ShapeStyle, TextStyle};

/// What all is drawn on. Pages turn it and the next three for the dark.
pub(super) const PAPER: RGBColor = RGBColor(255, 255, 255);
/// Letters, and lines that matter.
pub(super) const INK: RGBColor = RGBColor(0x1f, 0x23, 0x28);
/// Letters that are read later.
pub(super) const FAINT: RGBColor = RGBColor(0x5b, 0x64, 0x70);
/// Lines that only help the eye.
pub(super) const RULE: RGBColor = RGBColor(0xd0, 0xd7, 0xde);
/// Letters on a coloured ground that is light, by day and by night.
pub(super) const ON_LIGHT: RGBColor = RGBColor(0, 0, 0);
/// The same on a dark one.
pub(super) const ON_DARK: RGBColor = RGBColor(0xfe, 0xfe, 0xfe);

/// How wide all pictures are.
pub(super) const WIDTH: f64 = 960.0;

/// plotters writes letters smaller than it is told.
const LETTERS: f64 = 1.24;

/// A place: from the left, from the top.
pub(super) type Place = (f64, f64);

/// To which side of its place a word stands.
#[derive(Debug, Clone, Copy)]
pub(super) enum Side {
    /// The place is its left end.
    After,
    /// The place is its middle.
    Around,
    /// The place is its right end.
    Before,
}

/// Paper to draw on. A text takes whatever is drawn, so no drawing fails: the errors of plotters are those of files.
pub(super) struct Canvas<'a> {
    backend: SVGBackend<'a>,
}

/// Draws on a sheet of a size, and gives it as SVG.
pub(super) fn drawn((width, height): (f64, f64), draw: impl FnOnce(&mut Canvas<'_>)) -> String {
    let mut svg = String::new();
    let mut canvas =
        Canvas { backend: SVGBackend::with_string(&mut svg, (width.ceil() as u32, height.ceil() as u32)) };
    canvas.rectangle((0.0, 0.0), (width, height), PAPER);
    draw(&mut canvas);
    drop(canvas.backend.present());
    drop(canvas);
    svg
}

fn pixel((x, y): Place) -> (i32, i32) {
    (x.round() as i32, y.round() as i32)
}

impl Canvas<'_> {
    /// A filled rectangle between two corners.
    pub(super) fn rectangle(&mut self, from: Place, to: Place, colour: RGBColor) {
        let style: ShapeStyle = colour.filled();
        drop(self.backend.draw_rect(pixel(from), pixel(to), &style, true));
    }

    /// A line of so many pixels.
    pub(super) fn line(&mut self, from: Place, to: Place, width: u32, colour: RGBColor) {
        drop(self.backend.draw_line(pixel(from), pixel(to), &colour.stroke_width(width)));
    }

    /// A filled disc.
    pub(super) fn disc(&mut self, middle: Place, radius: u32, colour: RGBColor) {
        let style: ShapeStyle = colour.filled();
        drop(self.backend.draw_circle(pixel(middle), radius, &style, true));
    }

    /// A filled square that stands on its corner.
    pub(super) fn diamond(&mut self, (x, y): Place, radius: f64, colour: RGBColor) {
        let corners = [(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)].map(pixel);
        let style: ShapeStyle = colour.filled();
        drop(self.backend.fill_polygon(corners, &style));
    }

    /// A whisker from the least to the most, lying.
    pub(super) fn whisker(&mut self, (low, high): (f64, f64), y: f64, reach: f64, colour: RGBColor) {
        self.line((low, y), (high, y), 1, colour);
        for end in [low, high] {
            self.line((end, y - reach), (end, y + reach), 1, colour);
        }
    }

    /// Words in the middle of their height.
    pub(super) fn words(&mut self, at: Place, words: &str, size: f64, side: Side, colour: RGBColor) {
        self.letters(at, words, size, side, colour, FontStyle::Normal);
    }

    /// The same, bold.
    pub(super) fn bold(&mut self, at: Place, words: &str, size: f64, side: Side, colour: RGBColor) {
        self.letters(at, words, size, side, colour, FontStyle::Bold);
    }

    fn letters(
        &mut self,
        at: Place,
        words: &str,
        size: f64,
        side: Side,
        colour: RGBColor,
        weight: FontStyle,
    ) {
        let across = match side {
            Side::After => HPos::Left,
            Side::Around => HPos::Center,
            Side::Before => HPos::Right,
        };
        let font = (FontFamily::SansSerif, size * LETTERS, weight).into_font();
        let style = TextStyle::from(font).color(&colour).pos(Pos::new(across, VPos::Center));
        drop(self.backend.draw_text(words, &style, pixel(at)));
    }
}

/// About how wide words of a size are.
pub(super) fn width_of(words: &str, size: f64) -> f64 {
    words.chars().count() as f64 * size * 0.56
}

/// Round numbers from zero to at least `most`, no more than about eight of them.
pub(super) fn round_steps(most: f64) -> Vec<f64> {
    if !most.is_finite() || most <= 0.0 {
        return vec![0.0, 1.0];
    }
    let rough = most / 6.0;
    let ten = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|part| part * ten).find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(ten * 10.0);
    let count = (most / step - 1e-9).ceil().max(1.0) as u32;
    (0..=count).map(|at| f64::from(at) * step).collect()
}

/// Numbers 1, 2 and 5 of every power of ten, from at most `least` to at least `most`.
pub(super) fn growing_steps(least: f64, most: f64) -> Vec<f64> {
    let (least, most) = (least.max(1e-6), most.max(least.max(1e-6)));
    let first = least.log10().floor() as i32;
    let last = most.log10().ceil() as i32;
    let all: Vec<f64> =
        (first..=last).flat_map(|power| [1.0, 2.0, 5.0].map(|part| part * 10f64.powi(power))).collect();
    let begin = all.iter().rposition(|step| *step <= least * 1.001).unwrap_or(0);
    let end = all.iter().position(|step| *step >= most * 0.999).unwrap_or(all.len() - 1);
    all[begin..=end.max(begin)].to_vec()
}

/// A step of an axis, without zeros that say nothing.
pub(super) fn step_text(step: f64) -> String {
    let text = format!("{step:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::{INK, Side, drawn, growing_steps, round_steps, step_text};
    use crate::report::example::balanced;
    use proptest::prelude::{prop_assert, proptest};

    #[test]
    fn words_stay_words_and_mean_nothing_else() {
        let svg = drawn((100.0, 50.0), |canvas| {
            canvas.bold((50.0, 25.0), "a < b & \"c\"", 12.0, Side::Around, INK);
            canvas.diamond((10.0, 10.0), 4.0, INK);
            canvas.disc((10.0, 10.0), 4, INK);
            canvas.whisker((1.0, 9.0), 10.0, 3.0, INK);
        });
        assert!(svg.contains("a &lt; b &amp; &quot;c&quot;") && svg.contains("font-size=\"12\""), "{svg}");
        assert_eq!(balanced(&svg), Ok(()));
        assert!(svg.starts_with("<svg width=\"100\" height=\"50\" viewBox="), "{svg}");
        assert!(svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn steps_are_round() {
        assert_eq!(round_steps(1.0), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(round_steps(3.1), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(round_steps(0.0), [0.0, 1.0]);
        assert_eq!(growing_steps(1.5, 70.0), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
    }

    #[test]
    fn steps_have_no_zeros_too_many() {
        assert_eq!([0.5, 10.0, 0.0, 0.002].map(step_text), ["0.5", "10", "0", "0.002"]);
    }

    proptest! {
        #[test]
        fn steps_hold_what_is_shown(least in 1e-5f64..1e5, times in 1.0f64..1e4) {
            let most = least * times;
            let steps = round_steps(most);
            prop_assert!((2..=9).contains(&steps.len()), "{:?}", steps);
            prop_assert!(steps[steps.len() - 1] >= most * 0.999);
            let steps = growing_steps(least, most);
            prop_assert!(steps[0] <= least * 1.002 && steps[steps.len() - 1] >= most * 0.998, "{:?}", steps);
        }
    }
}

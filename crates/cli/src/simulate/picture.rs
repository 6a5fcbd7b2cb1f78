//! Pictures as files: one drawing as SVG, as PNG, or as both, with a font of our own, for machines often have none.

use crate::failure::{Failure, Outcome};
use crate::simulate::args::PlotFormat;
use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::style::{FontStyle, WHITE, register_font};
use std::path::Path;

/// Width and height.
const SIZE: (u32, u32) = (960, 540);
/// So many pixels stand for each in a PNG: small letters need them.
const PIXELS: u32 = 2;

/// Something to draw on.
pub(super) type Area<DB> = DrawingArea<DB, Shift>;
/// What can go wrong with it.
pub(super) type Failed<DB> = DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>;

/// A picture, on whatever it is drawn.
pub(super) trait Picture {
    /// Draws it, all so many times as large.
    fn draw<DB: DrawingBackend>(&self, area: &Area<DB>, times: u32) -> Result<(), Failed<DB>>;
}

/// Writes pictures into a folder, which is made if it is not there.
pub(super) fn write<P: Picture>(folder: &Path, format: PlotFormat, pictures: &[(&str, P)]) -> Outcome {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::new(format!("{}: can not write it: {error}", path.display()))
    };
    // A font is known by its name alone, and to say it twice does no harm.
    let font = register_font("sans-serif", FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT);
    font.map_err(|_| failed(folder, &"the font in the program is damaged"))?;
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    for (name, picture) in pictures {
        let put = |ending: &str, bytes: Result<Vec<u8>, String>| {
            let path = folder.join(format!("{name}.{ending}"));
            let bytes = bytes.map_err(|error| failed(&path, &error))?;
            crate::output::put(&path, &bytes).map_err(|error| failed(&path, &error))
        };
        if format != PlotFormat::Png {
            put("svg", svg(picture))?;
        }
        if format != PlotFormat::Svg {
            put("png", png(picture))?;
        }
    }
    Ok(())
}

fn drawn<DB: DrawingBackend>(picture: &impl Picture, on: DB, times: u32) -> Result<(), String> {
    let area = on.into_drawing_area();
    let draw = || {
        area.fill(&WHITE)?;
        picture.draw(&area, times)?;
        area.present()
    };
    draw().map_err(|error: Failed<DB>| error.to_string())
}

fn svg(picture: &impl Picture) -> Result<Vec<u8>, String> {
    let mut svg = String::new();
    drawn(picture, SVGBackend::with_string(&mut svg, SIZE), 1)?;
    Ok(svg.into_bytes())
}

fn png(picture: &impl Picture) -> Result<Vec<u8>, String> {
    let (width, height) = (SIZE.0 * PIXELS, SIZE.1 * PIXELS);
    // Three bytes a pixel.
    let mut pixels = vec![0; width as usize * height as usize * 3];
    drawn(picture, BitMapBackend::with_buffer(&mut pixels, (width, height)), PIXELS)?;
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&pixels));
    written.map_err(|error| error.to_string())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::{Area, Failed, PIXELS, Picture, SIZE, write};
    use crate::simulate::args::PlotFormat;
    use plotters::backend::DrawingBackend;
    use plotters::element::Text;
    use plotters::style::IntoFont;

    /// A word, and nothing else.
    struct Word;

    impl Picture for Word {
        fn draw<DB: DrawingBackend>(&self, area: &Area<DB>, times: u32) -> Result<(), Failed<DB>> {
            let at = (100 * times as i32, 50 * times as i32);
            area.draw(&Text::new("GPU", at, ("sans-serif", 20 * times).into_font()))
        }
    }

    #[test]
    fn both_files_show_the_word_where_no_font_is_installed() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), PlotFormat::Both, &[("word", Word)]).unwrap();
        let svg = std::fs::read_to_string(folder.path().join("word.svg")).unwrap();
        assert!(svg.contains("GPU") && svg.contains("<svg width=\"960\" height=\"540\""), "{svg}");
        let png = std::fs::File::open(folder.path().join("word.png")).unwrap();
        let mut reader = png::Decoder::new(std::io::BufReader::new(png)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (SIZE.0 * PIXELS, SIZE.1 * PIXELS));
        // Dark pixels are where the word is, and nowhere else.
        let (mut inside, mut outside) = (0, 0);
        for (index, pixel) in pixels.chunks(3).enumerate() {
            let (x, y) = (index as u32 % info.width / PIXELS, index as u32 / info.width / PIXELS);
            if pixel[0] < 100 {
                let there = (100..160).contains(&x) && (45..80).contains(&y);
                *if there { &mut inside } else { &mut outside } += 1;
            }
        }
        assert!(inside > 200 && outside == 0, "{inside} inside, {outside} outside");
    }

    #[test]
    fn one_format_alone_leaves_the_other_out() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), PlotFormat::Png, &[("word", Word)]).unwrap();
        write(folder.path(), PlotFormat::Svg, &[("other", Word)]).unwrap();
        let mut names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["other.svg", "word.png"]);
    }
}

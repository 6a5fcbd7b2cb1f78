//! Terminals as films: what commands printed, as asciinema keeps it and as a picture that moves.

use std::fmt::Write;
use std::num::NonZero;

/// Letters of a line, and lines of the terminal.
pub(crate) const COLUMNS: u16 = 132;
pub(crate) const ROWS: u16 = 32;
/// Seconds for which each command is shown.
const SHOWN: f64 = 5.0;
/// What a letter takes, in the picture's own measure.
const WIDE: f64 = 7.8;
const HIGH: f64 = 17.0;

/// A command, and what it printed as terminals are told it.
pub(crate) struct Scene {
    pub(crate) command: String,
    pub(crate) printed: Vec<u8>,
}

/// What stands on the terminal after a scene, or before a program gives the whole screen back.
fn screen(scene: &Scene) -> vt100::Parser {
    let size = |count| NonZero::new(count).expect("more than none");
    let mut parser = vt100::Parser::new(size(ROWS), size(COLUMNS), 0);
    let leaves = b"\x1b[?1049l";
    let whole = scene.printed.windows(leaves.len()).position(|bytes| bytes == leaves);
    parser.process(&scene.printed[..whole.unwrap_or(scene.printed.len())]);
    parser
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn colour(colour: vt100::Color) -> Option<&'static str> {
    let vt100::Color::Idx(number) = colour else { return None };
    let known = [
        "#6b7280", "#f87171", "#4ade80", "#fbbf24", "#60a5fa", "#c084fc", "#22d3ee", "#e5e7eb", "#9ca3af",
        "#fca5a5", "#86efac", "#fcd34d", "#93c5fd", "#d8b4fe", "#67e8f9", "#ffffff",
    ];
    known.get(usize::from(number)).copied()
}

/// One line, in pieces of one colour.
fn line(screen: &vt100::Screen, row: u16) -> String {
    let mut pieces: Vec<(Option<&'static str>, bool, String)> = Vec::new();
    for column in 0..COLUMNS {
        let Some(cell) = screen.cell(row, column) else { continue };
        let (ink, bold) = (colour(cell.fgcolor()), cell.bold());
        let text = if cell.has_contents() { cell.contents() } else { " " };
        match pieces.last_mut() {
            Some((last, thick, words)) if *last == ink && *thick == bold => words.push_str(text),
            _ => pieces.push((ink, bold, text.to_owned())),
        }
    }
    let mut written = String::new();
    let count = pieces.len();
    for (place, (ink, bold, words)) in pieces.into_iter().enumerate() {
        let words = if place + 1 == count { words.trim_end().to_owned() } else { words };
        let ink = ink.map(|ink| format!(" fill=\"{ink}\"")).unwrap_or_default();
        let bold = if bold { " font-weight=\"bold\"" } else { "" };
        let _ = write!(written, "<tspan{ink}{bold}>{}</tspan>", escaped(&words));
    }
    written
}

/// The picture: one command after the other, again and again.
pub(crate) fn picture(scenes: &[Scene]) -> String {
    let (width, height) = (f64::from(COLUMNS) * WIDE + 32.0, f64::from(ROWS + 2) * HIGH + 32.0);
    let all = scenes.len() as f64 * SHOWN;
    let part = 100.0 / scenes.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\n\
         <title>carve in a terminal: {}</title>\n<style>text {{ font: 13px ui-monospace, Menlo, Consolas, \"DejaVu Sans Mono\", monospace; fill: #d1d5db; white-space: pre }}\n\
         g {{ visibility: hidden; animation: show {all}s step-end infinite }}\n\
         @keyframes show {{ 0% {{ visibility: visible }} {part:.3}% {{ visibility: hidden }} }}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#0f1419\"/>\n",
        escaped(&scenes.iter().map(|scene| scene.command.as_str()).collect::<Vec<_>>().join("; "))
    );
    for (number, scene) in scenes.iter().enumerate() {
        let parser = screen(scene);
        let _ = writeln!(svg, "<g style=\"animation-delay: {}s\">", number as f64 * SHOWN);
        let _ = writeln!(
            svg,
            "<text x=\"16\" y=\"30\" xml:space=\"preserve\"><tspan fill=\"#4ade80\">$ </tspan><tspan fill=\"#ffffff\">{}</tspan></text>",
            escaped(&scene.command)
        );
        for row in 0..ROWS {
            let words = line(parser.screen(), row);
            if !words.is_empty() && words != "<tspan></tspan>" {
                let y = 30.0 + f64::from(row + 2) * HIGH;
                let _ = writeln!(svg, "<text x=\"16\" y=\"{y:.0}\" xml:space=\"preserve\">{words}</text>");
            }
        }
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

/// The same as asciinema plays it.
pub(crate) fn cast(scenes: &[Scene]) -> String {
    let head = serde_json::json!({"version": 2, "width": COLUMNS, "height": ROWS + 2, "title": "The first five minutes of carve"});
    let mut lines = format!("{head}\n");
    let mut at = 0.0;
    let mut say = |after: f64, text: &str| {
        at += after;
        let _ = writeln!(lines, "{}", serde_json::json!([(at * 1000.0_f64).round() / 1000.0, "o", text]));
    };
    for scene in scenes {
        say(0.5, "\x1b[2J\x1b[H\x1b[32m$ \x1b[0m");
        for letter in scene.command.chars() {
            say(0.03, &letter.to_string());
        }
        say(0.3, "\r\n");
        say(0.2, &String::from_utf8_lossy(&scene.printed));
        say(3.0, "");
    }
    lines
}

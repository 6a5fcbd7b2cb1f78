//! The screen.

use crate::keys::View;
use crate::once::{HEADS, cells, headline};
use crate::rows::{Row, rows};
use carve_fleet_picture::Picture;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Clear, Paragraph, Row as TableRow, Table};

/// A bar of so many letters; how much was promised is marked in it.
fn bar(used: f64, promised: Option<f64>, width: usize) -> String {
    let scale = |part: f64| (part.clamp(0.0, 1.0) * width as f64).round() as usize;
    let (full, mark) = (scale(used), promised.map(scale));
    (0..width)
        .map(|place| match (place < full, mark) {
            (true, _) => '█',
            (false, Some(mark)) if place < mark => '▒',
            _ => '·',
        })
        .collect()
}

fn tone(part: f64) -> Style {
    // Colour is seasoning: the bar and the number say the same.
    match part {
        part if part >= 0.75 => Style::new().fg(Color::Green),
        part if part >= 0.25 => Style::new().fg(Color::Cyan),
        _ => Style::new().fg(Color::DarkGray),
    }
}

fn table_row(row: &Row) -> TableRow<'static> {
    let [name, what, promised, used, memory, held, how] = cells(row);
    let (part, mark, bold) = match row {
        Row::Gpu { busy, .. } => (busy.unwrap_or(0.0), None, true),
        Row::Slice { used, promised, .. } => (used.unwrap_or(0.0), *promised, false),
    };
    let style = if bold { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
    let held = Cell::from(Span::styled(held, Style::new().fg(Color::Yellow)));
    TableRow::new([
        Cell::from(name),
        Cell::from(what),
        Cell::from(promised),
        Cell::from(Span::styled(bar(part, mark, 20), tone(part))),
        Cell::from(used),
        Cell::from(memory),
        held,
        Cell::from(how),
    ])
    .style(style)
}

const KEYS: [(&str, &str); 7] = [
    ("↑ ↓ PgUp PgDn Home End", "move"),
    ("s", "another order: name, use, waste, memory, throttled"),
    ("/", "only lines with these words: node, product, pod, workload, way"),
    ("Esc", "all lines again"),
    ("?", "this"),
    ("q, Ctrl-C", "end"),
    ("█ used  ▒ promised and not used", ""),
];

/// How many lines fit.
fn fit(area: Rect) -> usize {
    usize::from(area.height.saturating_sub(4))
}

/// Draws a picture; says how many lines there are and how many fit. Trouble is what keeps newer pictures away.
pub fn draw(frame: &mut Frame<'_>, picture: &Picture, view: &View, trouble: Option<&str>) -> (usize, usize) {
    let area = frame.area();
    let all = rows(picture, view.sort, &view.filter);
    let fit = fit(area);
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(1), Constraint::Length(1)]).areas(area);
    frame.render_widget(Paragraph::new(headline(picture)), head);
    let heads = HEADS[..3].iter().chain(&["", "USED"]).chain(&HEADS[4..]).map(|head| Cell::from(*head));
    let heads = TableRow::new(heads).style(Style::new().add_modifier(Modifier::DIM));
    let widths = [
        Constraint::Min(24),
        Constraint::Length(22),
        Constraint::Length(10),
        Constraint::Length(20),
        Constraint::Length(5),
        Constraint::Length(18),
        Constraint::Length(9),
        Constraint::Length(9),
    ];
    let shown = all.iter().skip(view.from).take(fit).map(table_row);
    frame.render_widget(Table::new(shown, widths).header(heads).column_spacing(1), body);
    let waits =
        picture.waiting.iter().next().map(|(pod, waiting)| format!("  waiting: {pod}: {}", waiting.why));
    let line = match (trouble, view.typing) {
        (Some(trouble), _) => Line::styled(trouble.to_owned(), Style::new().fg(Color::Red)),
        (None, true) => Line::from(format!("/{}▏", view.filter)),
        (None, false) => {
            let filter =
                if view.filter.is_empty() { String::new() } else { format!("  only: {}", view.filter) };
            Line::from(format!("by {}{filter}{}  ? keys  q end", view.sort.word(), waits.unwrap_or_default()))
        }
    };
    frame.render_widget(Paragraph::new(line), foot);
    if view.help {
        let lines: Vec<Line<'_>> =
            KEYS.iter().map(|(key, what)| Line::from(format!(" {key:<32} {what}"))).collect();
        let height = u16::try_from(lines.len()).unwrap_or(7).min(area.height);
        let place =
            Rect { x: area.x, y: area.y + area.height.saturating_sub(height + 1), width: area.width, height };
        frame.render_widget(Clear, place);
        frame.render_widget(Paragraph::new(lines), place);
    }
    (all.len(), fit)
}

#[cfg(test)]
mod tests {
    use super::{bar, draw};
    use crate::keys::View;
    use crate::rows::tests::picture;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen(view: &View, trouble: Option<&str>) -> String {
        let mut terminal = Terminal::new(TestBackend::new(130, 12)).expect("a terminal");
        let draws = |frame: &mut ratatui::Frame<'_>| {
            draw(frame, &picture(), view, trouble);
        };
        terminal.draw(draws).expect("drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn people_see_bars_and_numbers() {
        let shown = screen(&View::default(), None);
        for words in ["p4d-1:0", "MIG 3g.20gb", "██████▒▒·", "waiting: lab/big", "by name"] {
            assert!(shown.contains(words), "{words}:\n{shown}");
        }
        let typing = View { typing: true, filter: "chat".to_owned(), ..View::default() };
        let shown = screen(&typing, None);
        assert!(shown.contains("/chat▏") && !shown.contains("search/b"), "{shown}");
        assert!(screen(&View { help: true, ..View::default() }, None).contains("another order"));
        assert!(screen(&View::default(), Some("carve up does not answer")).contains("does not answer"));
    }

    #[test]
    fn bars_are_as_long_as_they_say() {
        assert_eq!(bar(0.5, Some(0.75), 8), "████▒▒··");
        assert_eq!(bar(2.0, None, 4), "████");
        assert_eq!(bar(0.0, None, 4), "····");
    }
}

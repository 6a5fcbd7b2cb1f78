//! A GPU drawn as its memory slots, to scale, in text.

use carve_gpu_model::{Placed, ProfileName, ProfileTable};

/// How wide a picture may get, so that it fits a terminal with room to spare.
const WIDTH: usize = 72;

/// An instance to be drawn, with a mark behind its name.
#[derive(Debug, Clone)]
pub(crate) struct Drawn {
    pub(crate) placed: Placed,
    /// How it is divided, if not whole: `1c 1c 1c`.
    pub(crate) division: Option<String>,
    /// One sign: in use, new, going.
    pub(crate) mark: &'static str,
}

/// The slots of a GPU with what sits in them; every line is indented by `indent`.
pub(crate) fn picture(table: &ProfileTable, drawn: &[Drawn], indent: &str) -> String {
    let slots = usize::from(table.slots());
    if slots == 0 {
        return String::new();
    }
    let cell = WIDTH / slots;
    let mut cells = cells(table, drawn, slots);
    cells.sort_by_key(|cell| cell.start);
    let edge = |left: char, joint: char, right: char| {
        let mut line = String::from(left);
        for (position, part) in cells.iter().enumerate() {
            line.extend(std::iter::repeat_n('─', part.size * cell - 1));
            line.push(if position + 1 == cells.len() { right } else { joint });
        }
        line
    };
    let mut middle = String::from('│');
    for part in &cells {
        let room = part.size * cell - 1;
        let label =
            part.labels.iter().find(|label| label.chars().count() <= room).cloned().unwrap_or_default();
        middle.push_str(&format!("{label:<room$}│"));
    }
    let numbers: String = (0..slots).map(|slot| format!("{slot:<cell$}")).collect();
    format!(
        "{indent} {}\n{indent}{}\n{indent}{middle}\n{indent}{}\n",
        numbers.trim_end(),
        edge('┌', '┬', '┐'),
        edge('└', '┴', '┘')
    )
}

struct Cell {
    start: usize,
    size: usize,
    /// From the fullest to the shortest.
    labels: Vec<String>,
}

fn cells(table: &ProfileTable, drawn: &[Drawn], slots: usize) -> Vec<Cell> {
    let mut cells: Vec<Cell> = drawn
        .iter()
        .filter_map(|drawn| {
            let profile = table.get(drawn.placed.profile)?;
            let at = table.placement(drawn.placed)?;
            Some(Cell {
                start: usize::from(at.start),
                size: usize::from(at.size),
                labels: labels(&profile.name, drawn),
            })
        })
        .collect();
    for slot in 0..slots {
        if !cells.iter().any(|cell| (cell.start..cell.start + cell.size).contains(&slot)) {
            cells.push(Cell { start: slot, size: 1, labels: vec!["·".to_owned()] });
        }
    }
    cells
}

/// Names from the fullest to the shortest: `1c 1c 1c.3g.20gb*`, `3g.20gb*`, `3g*`.
fn labels(name: &ProfileName, drawn: &Drawn) -> Vec<String> {
    let mark = drawn.mark;
    let attributes = name.to_string().find(['+', '-']).map(|at| name.to_string()[at..].to_owned());
    let short = format!("{}g{}{mark}", name.gpu_slices(), attributes.unwrap_or_default());
    let full = drawn.division.as_ref().map(|division| format!("{name} ({division}){mark}"));
    full.into_iter().chain([format!("{name}{mark}"), short]).collect()
}

#[cfg(test)]
mod tests {
    use super::{Drawn, picture};
    use carve_gpu_model::{Placed, Product};

    #[test]
    fn instances_are_drawn_to_scale_and_free_slots_show() {
        let table = Product::by_key("a100-40gb").and_then(Product::profile_table).unwrap();
        let at = |name: &str, start, mark| Drawn {
            placed: Placed { profile: table.by_name(&name.parse().unwrap()).unwrap().0, start },
            division: None,
            mark,
        };
        let text = picture(&table, &[at("3g.20gb", 4, "*"), at("1g.5gb+me", 0, "")], "  ");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "   0        1        2        3        4        5        6        7");
        assert_eq!(lines[2], "  │1g+me   │·       │·       │·       │3g.20gb*                           │");
        assert!(lines.iter().skip(1).all(|line| line.chars().count() == lines[1].chars().count()));
    }
}

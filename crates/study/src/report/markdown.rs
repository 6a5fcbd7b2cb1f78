//! A report as Markdown, as GitHub and others read it.

use super::{Block, Document, Section, Table};
use std::fmt::Write;

impl Document {
    /// As Markdown, which refers to its pictures as `FOLDER/NAME.svg`.
    pub fn markdown(&self, folder: &str) -> String {
        let mut page = format!("# {}\n", escaped(&self.title));
        for notice in &self.notices {
            let _ = write!(page, "\n> **{}**\n", escaped(notice));
        }
        if !self.facts.is_empty() {
            page.push('\n');
        }
        for (name, value) in &self.facts {
            let _ = writeln!(page, "- **{}:** {}", escaped(name), escaped(value));
        }
        for section in &self.sections {
            write_section(&mut page, section, 2, folder);
        }
        page
    }
}

fn write_section(page: &mut String, section: &Section, level: usize, folder: &str) {
    let _ = write!(page, "\n{} {}\n", "#".repeat(level), escaped(&section.title));
    for block in &section.blocks {
        page.push('\n');
        match block {
            Block::Paragraph(text) => {
                let _ = writeln!(page, "{}", line(text));
            }
            Block::List(points) => {
                for point in points {
                    let _ = writeln!(page, "- {}", line(point));
                }
            }
            Block::Table(table) => write_table(page, table),
            Block::Picture(picture) => {
                let target = address(&format!("{folder}/{}.svg", picture.name));
                let _ = writeln!(page, "![{}]({target})", escaped(&picture.title));
            }
        }
    }
    for part in &section.parts {
        write_section(page, part, (level + 1).min(6), folder);
    }
}

fn write_table(page: &mut String, table: &Table) {
    let titles: Vec<String> = table.columns().iter().map(|column| escaped(&column.title)).collect();
    let _ = writeln!(page, "| {} |", titles.join(" | "));
    let sides: Vec<&str> =
        table.columns().iter().map(|column| if column.numbers { "---:" } else { "---" }).collect();
    let _ = writeln!(page, "|{}|", sides.join("|"));
    for row in table.rows() {
        let cells: Vec<String> = row.iter().map(|cell| escaped(cell)).collect();
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    }
}

/// A text of which nothing is taken for a mark, on one line.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            // A backslash before them makes them mere characters; `$` begins formulas at some readers.
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '~' | '&' | '$' | '#' => {
                safe.push('\\');
                safe.push(character);
            }
            _ if character.is_control() => safe.push(' '),
            _ => safe.push(character),
        }
    }
    safe
}

/// The same where a line begins: there, `-`, `+`, `=` and `1.` would begin a list or underline what is above.
fn line(text: &str) -> String {
    let safe = escaped(text.trim_start());
    let digits = safe.len() - safe.trim_start_matches(|character: char| character.is_ascii_digit()).len();
    match safe[digits..].chars().next() {
        Some('-' | '+' | '=') if digits == 0 => format!("\\{safe}"),
        Some('.' | ')') if digits > 0 => format!("{}\\{}", &safe[..digits], &safe[digits..]),
        _ => safe,
    }
}

/// Where a picture is, with nothing in it that would end a link.
fn address(path: &str) -> String {
    let mut safe = String::with_capacity(path.len());
    for character in path.chars() {
        match character {
            ' ' => safe.push_str("%20"),
            '(' => safe.push_str("%28"),
            ')' => safe.push_str("%29"),
            '<' => safe.push_str("%3C"),
            '>' => safe.push_str("%3E"),
            '\\' => safe.push_str("%5C"),
            _ if character.is_control() => {}
            _ => safe.push(character),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::{address, escaped, line};
    use crate::report::example::{all_sections, example, nasty};
    use crate::report::{Block, Document};

    /// Columns of a table's line: what stands between bars that no backslash takes away.
    fn columns(line: &str) -> usize {
        line.replace("\\\\", "").replace("\\|", "").matches('|').count() - 1
    }

    #[test]
    fn every_line_of_a_table_has_all_columns() {
        let page = Document::of(&example(), &[nasty()]).markdown("pictures");
        let mut tables = 0;
        let mut expected = None;
        for line in page.lines() {
            if line.starts_with('|') {
                let found = columns(line);
                tables += usize::from(expected.is_none());
                assert_eq!(*expected.get_or_insert(found), found, "{line}");
            } else {
                expected = None;
            }
        }
        assert!(tables >= 10, "{tables}");
    }

    #[test]
    fn nothing_from_a_study_is_taken_for_a_mark() {
        assert_eq!(escaped("<b>|a_b|</b>\n`x`"), "\\<b\\>\\|a\\_b\\|\\</b\\> \\`x\\`");
        assert_eq!(line("- no point"), "\\- no point");
        assert_eq!(line("1. no number"), "1\\. no number");
        assert_eq!(line("12 tenants"), "12 tenants");
        assert_eq!(line("# no title"), "\\# no title");
        assert_eq!(address("a b/(c)>.svg"), "a%20b/%28c%29%3E.svg");
        let page = Document::of(&example(), &[nasty()]).markdown("pictures");
        assert!(!page.contains("<script>") && page.contains("\\<script\\>"), "{page}");
    }

    #[test]
    fn every_picture_is_referred_to() {
        let document = Document::of(&example(), &[]);
        let page = document.markdown("a folder");
        assert!(!document.pictures().is_empty());
        for picture in document.pictures() {
            assert!(page.contains(&format!("](a%20folder/{}.svg)", picture.name)), "{}", picture.name);
        }
    }

    #[test]
    fn all_of_the_document_is_written() {
        let document = Document::of(&example(), &[nasty()]);
        let page = document.markdown("pictures");
        for section in all_sections(&document) {
            assert!(page.contains(&escaped(&section.title)), "{}", section.title);
            for block in &section.blocks {
                match block {
                    Block::Paragraph(text) => assert!(page.contains(&line(text)), "{text}"),
                    Block::List(points) => assert!(points.iter().all(|point| page.contains(&line(point)))),
                    Block::Table(table) => {
                        for cell in table.rows().iter().flatten() {
                            assert!(page.contains(&escaped(cell)), "{cell}");
                        }
                    }
                    Block::Picture(_) => {}
                }
            }
        }
    }
}

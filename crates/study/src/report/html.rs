//! A report as one page for browsers, with everything in it.

use super::{Block, Document, Section, Table};
use std::collections::BTreeSet;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

impl Document {
    /// As one page that needs nothing else: no script, no other file, no network.
    pub fn html(&self) -> String {
        let mut anchors = Anchors::default();
        let named: Vec<(String, &Section)> =
            self.sections.iter().map(|section| (anchors.take(&section.title), section)).collect();
        let title = escaped(&self.title);
        let mut page = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n"
        );
        for notice in &self.notices {
            let _ = writeln!(page, "<p class=\"notice\" role=\"note\">{}</p>", escaped(notice));
        }
        if !self.facts.is_empty() {
            page.push_str("<dl>\n");
            for (name, value) in &self.facts {
                let _ = writeln!(page, "<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(value));
            }
            page.push_str("</dl>\n");
        }
        page.push_str("</header>\n");
        if !named.is_empty() {
            page.push_str("<nav aria-label=\"Contents\">\n<ul>\n");
            for (anchor, section) in &named {
                let _ = writeln!(page, "<li><a href=\"#{anchor}\">{}</a></li>", escaped(&section.title));
            }
            page.push_str("</ul>\n</nav>\n");
        }
        page.push_str("<main>\n");
        for (anchor, section) in &named {
            write_section(&mut page, section, anchor, 2, &mut anchors);
        }
        page.push_str("</main>\n</body>\n</html>\n");
        page
    }
}

/// Names of places on the page, each given once.
#[derive(Default)]
struct Anchors(BTreeSet<String>);

impl Anchors {
    fn take(&mut self, title: &str) -> String {
        let mut name = String::new();
        for character in title.chars() {
            if character.is_ascii_alphanumeric() {
                name.push(character.to_ascii_lowercase());
            } else if !name.is_empty() && !name.ends_with('-') {
                name.push('-');
            }
        }
        let name = name.trim_end_matches('-');
        let name = if name.is_empty() { "section" } else { name };
        let mut candidate = name.to_owned();
        let mut count = 1;
        while !self.0.insert(candidate.clone()) {
            count += 1;
            candidate = format!("{name}-{count}");
        }
        candidate
    }
}

fn write_section(page: &mut String, section: &Section, anchor: &str, level: usize, anchors: &mut Anchors) {
    let _ = writeln!(page, "<section id=\"{anchor}\">\n<h{level}>{}</h{level}>", escaped(&section.title));
    for block in &section.blocks {
        match block {
            Block::Paragraph(text) => {
                let _ = writeln!(page, "<p>{}</p>", escaped(text));
            }
            Block::List(points) => {
                page.push_str("<ul>\n");
                for point in points {
                    let _ = writeln!(page, "<li>{}</li>", escaped(point));
                }
                page.push_str("</ul>\n");
            }
            Block::Table(table) => write_table(page, table, &section.title),
            Block::Picture(picture) => {
                let title = escaped(&picture.title);
                let _ =
                    writeln!(page, "<figure role=\"img\" aria-label=\"{title}\">\n{}</figure>", picture.svg);
            }
        }
    }
    for part in &section.parts {
        let name = anchors.take(&format!("{} {}", section.title, part.title));
        write_section(page, part, &name, (level + 1).min(6), anchors);
    }
    page.push_str("</section>\n");
}

fn write_table(page: &mut String, table: &Table, title: &str) {
    // Where it is wider than the screen it moves alone, by keys too.
    let _ = writeln!(
        page,
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Table: {}\">\n<table>\n<thead>\n<tr>",
        escaped(title)
    );
    let class = |at: usize| match table.columns().get(at) {
        Some(column) if column.numbers => " class=\"number\"",
        _ => "",
    };
    for (at, column) in table.columns().iter().enumerate() {
        let _ = write!(page, "<th scope=\"col\"{}>{}</th>", class(at), escaped(&column.title));
    }
    page.push_str("</tr>\n</thead>\n");
    for group in table.grouped() {
        page.push_str("<tbody>\n");
        for row in group {
            page.push_str("<tr>");
            for (at, cell) in row.iter().enumerate() {
                let _ = write!(page, "<td{}>{}</td>", class(at), escaped(cell));
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody>\n");
    }
    page.push_str("</table>\n</div>\n");
}

/// A text of which nothing is taken for a mark.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ if character.is_control() => safe.push(' '),
            _ => safe.push(character),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::{Anchors, STYLE, escaped};
    use crate::report::example::{all_sections, balanced, example, nasty};
    use crate::report::{Block, Document, canvas};
    use std::collections::BTreeSet;

    fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
        page.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }

    #[test]
    fn nothing_from_a_study_is_taken_for_a_mark() {
        assert_eq!(escaped("<b a=\"'\">&\n"), "&lt;b a=&quot;&#39;&quot;&gt;&amp; ");
        let page = Document::of(&example(), &[nasty()]).html();
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
    }

    #[test]
    fn every_element_ends() {
        let page = Document::of(&example(), &[nasty()]).html();
        let (_, body) = page.split_once("<html").unwrap();
        assert_eq!(balanced(&format!("<html{body}")), Ok(()));
    }

    #[test]
    fn places_are_named_once_and_links_lead_to_them() {
        // Titles from outside may be the same, or say nothing.
        let page = Document::of(&example(), &[nasty(), nasty()]).html();
        let names = values(&page, " id=\"");
        let unique: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(names.len(), unique.len());
        let links = values(&page, "href=\"#");
        assert!(links.len() > 5 && links.iter().all(|link| unique.contains(link)), "{links:?}");
        let mut anchors = Anchors::default();
        let taken: Vec<String> = ["A b", "a  B!", "?", "%"].iter().map(|title| anchors.take(title)).collect();
        assert_eq!(taken, ["a-b", "a-b-2", "section", "section-2"]);
    }

    #[test]
    fn it_needs_nothing_from_elsewhere() {
        let page = Document::of(&example(), &[nasty()]).html();
        let page = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for outside in ["http:", "https:", "<link", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn the_page_knows_the_colours_that_it_turns_for_the_dark() {
        for colour in [canvas::PAPER, canvas::INK, canvas::FAINT, canvas::RULE] {
            let name = format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2);
            assert!(STYLE.contains(&name), "{name}");
        }
    }

    #[test]
    fn all_of_the_document_is_written() {
        let document = Document::of(&example(), &[nasty()]);
        let page = document.html();
        for section in all_sections(&document) {
            assert!(page.contains(&escaped(&section.title)), "{}", section.title);
            for block in &section.blocks {
                match block {
                    Block::Paragraph(text) => assert!(page.contains(&escaped(text)), "{text}"),
                    Block::List(points) => {
                        assert!(points.iter().all(|point| page.contains(&escaped(point))));
                    }
                    Block::Table(table) => {
                        for cell in table.rows().iter().flatten() {
                            assert!(page.contains(&escaped(cell)), "{cell}");
                        }
                    }
                    Block::Picture(picture) => assert!(page.contains(&picture.svg), "{}", picture.name),
                }
            }
        }
    }
}

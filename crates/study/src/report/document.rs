//! What a report consists of, before it is written in any format.

use std::collections::BTreeSet;

/// A report. All of its texts are plain: whoever writes it in a format escapes what means something there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// What it is about.
    pub title: String,
    /// What a reader must know before anything else.
    pub notices: Vec<String>,
    /// Names and values: which card, when, how.
    pub facts: Vec<(String, String)>,
    /// Everything else, in the order in which it is read.
    pub sections: Vec<Section>,
}

/// A part of a report under a title of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its title.
    pub title: String,
    /// What stands in it.
    pub blocks: Vec<Block>,
    /// Smaller parts, which come after that.
    pub parts: Vec<Section>,
}

/// What stands in a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// Sentences.
    Paragraph(String),
    /// Points, none before another.
    List(Vec<String>),
    /// Rows and columns.
    Table(Table),
    /// Something to look at.
    Picture(Picture),
}

/// Rows and columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    groups: BTreeSet<usize>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// What stands above it.
    pub title: String,
    /// Whether numbers stand in it, whose digits belong below each other.
    pub numbers: bool,
}

/// A drawing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Its file's, without `.svg`.
    pub name: String,
    /// What it shows, for those who can not see it.
    pub title: String,
    /// The drawing itself.
    pub svg: String,
}

impl Document {
    /// All pictures, in the order in which they are seen.
    pub fn pictures(&self) -> Vec<&Picture> {
        fn collect<'a>(sections: &'a [Section], found: &mut Vec<&'a Picture>) {
            for section in sections {
                found.extend(section.blocks.iter().filter_map(|block| match block {
                    Block::Picture(picture) => Some(picture),
                    _ => None,
                }));
                collect(&section.parts, found);
            }
        }
        let mut found = Vec::new();
        collect(&self.sections, &mut found);
        found
    }
}

impl Section {
    /// One in which nothing stands yet.
    pub fn new(title: impl Into<String>) -> Self {
        Section { title: title.into(), blocks: Vec::new(), parts: Vec::new() }
    }

    /// With another paragraph.
    #[must_use]
    pub fn paragraph(mut self, text: impl Into<String>) -> Self {
        self.blocks.push(Block::Paragraph(text.into()));
        self
    }

    /// With another table; one without rows is left out.
    #[must_use]
    pub fn table(mut self, table: Table) -> Self {
        if !table.rows.is_empty() {
            self.blocks.push(Block::Table(table));
        }
        self
    }

    /// With another list; one without points is left out.
    #[must_use]
    pub fn list(mut self, points: Vec<String>) -> Self {
        if !points.is_empty() {
            self.blocks.push(Block::List(points));
        }
        self
    }

    /// With another picture, where there is something to draw.
    #[must_use]
    pub fn picture(mut self, picture: Option<Picture>) -> Self {
        self.blocks.extend(picture.map(Block::Picture));
        self
    }

    /// With another smaller part.
    #[must_use]
    pub fn part(mut self, part: Section) -> Self {
        self.parts.push(part);
        self
    }
}

impl Column {
    /// In which words stand.
    pub fn words(title: impl Into<String>) -> Self {
        Column { title: title.into(), numbers: false }
    }

    /// In which numbers stand.
    pub fn numbers(title: impl Into<String>) -> Self {
        Column { title: title.into(), numbers: true }
    }
}

impl Table {
    /// One without rows.
    pub fn new(columns: Vec<Column>) -> Self {
        Table { columns, rows: Vec::new(), groups: BTreeSet::new() }
    }

    /// Adds a row. It becomes as long as there are columns: what is missing is empty, what is too much is dropped.
    pub fn row(&mut self, mut cells: Vec<String>) {
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }

    /// What comes now belongs together, and less to what came before.
    pub fn group(&mut self) {
        self.groups.insert(self.rows.len());
    }

    /// Its columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Its rows, each as long as there are columns.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// Its rows, those that belong together beside each other.
    pub fn grouped(&self) -> Vec<&[Vec<String>]> {
        let mut ends: Vec<usize> = self.groups.iter().copied().filter(|start| *start > 0).collect();
        ends.push(self.rows.len());
        let mut start = 0;
        let mut groups = Vec::new();
        for end in ends {
            if end > start && end <= self.rows.len() {
                groups.push(&self.rows[start..end]);
                start = end;
            }
        }
        groups
    }

    /// Without columns in which no row has anything to say: nothing, or a dash.
    #[must_use]
    pub fn without_empty_columns(self) -> Self {
        let says = |at: usize| self.rows.iter().any(|row| !matches!(row[at].as_str(), "" | "–"));
        let kept: Vec<bool> = (0..self.columns.len()).map(says).collect();
        let keep = |at: usize| kept.get(at).copied().unwrap_or(false);
        let columns = self.columns.into_iter().enumerate().filter(|(at, _)| keep(*at)).map(|(_, one)| one);
        let rows = self.rows.into_iter().map(|row| {
            row.into_iter().enumerate().filter(|(at, _)| keep(*at)).map(|(_, cell)| cell).collect()
        });
        Table { columns: columns.collect(), rows: rows.collect(), groups: self.groups }
    }
}

#[cfg(test)]
mod tests {
    use super::{Column, Table};

    fn table() -> Table {
        let mut table = Table::new(vec![Column::words("a"), Column::numbers("b"), Column::words("c")]);
        table.group();
        table.row(vec!["1".to_owned(), "–".to_owned()]);
        table.group();
        table.row(vec!["2".to_owned(), String::new(), "3".to_owned(), "too much".to_owned()]);
        table.row(vec![]);
        table.group();
        table
    }

    #[test]
    fn rows_are_as_long_as_there_are_columns() {
        assert!(table().rows().iter().all(|row| row.len() == 3));
        assert_eq!(table().rows()[1][2], "3");
    }

    #[test]
    fn groups_hold_every_row_once() {
        let table = table();
        let lengths: Vec<usize> = table.grouped().iter().map(|group| group.len()).collect();
        assert_eq!(lengths, [1, 2]);
    }

    #[test]
    fn columns_that_say_nothing_go() {
        let titles: Vec<String> =
            table().without_empty_columns().columns().iter().map(|column| column.title.clone()).collect();
        assert_eq!(titles, ["a", "c"]);
    }
}

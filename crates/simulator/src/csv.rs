//! Tables as CSV: columns by name, one entry a line, no quoting.

use crate::trace::TraceError;
use std::collections::BTreeMap;

/// A longer line is no line of a trace.
pub(crate) const LONGEST: usize = 4096;

/// More of anything than one machine has.
pub(crate) const MOST: u64 = 1 << 40;

/// More lines than are kept; keeps a wrong file from filling the memory.
pub(crate) const MOST_ENTRIES: usize = 1_000_000;

/// A table that is read line by line.
#[derive(Debug)]
pub(crate) struct Table<'a> {
    columns: BTreeMap<&'a str, usize>,
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
}

/// One line of it.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    /// The line, the first being 1.
    pub(crate) line: usize,
    cells: Vec<&'a str>,
}

/// Something is wrong with a line.
pub(crate) fn wrong<T>(line: usize, what: impl Into<String>) -> Result<T, TraceError> {
    Err(TraceError::Line { line, what: what.into() })
}

impl<'a> Table<'a> {
    pub(crate) fn new(text: &'a str, needed: &[&str], known: &[&str]) -> Result<Self, TraceError> {
        let mut lines = text.lines().enumerate();
        let Some((_, header)) = lines.next() else {
            return wrong(1, format!("the file is empty; it should begin with '{}'", needed.join(",")));
        };
        if header.len() > LONGEST {
            return wrong(1, format!("the line has {} bytes; this is no trace", header.len()));
        }
        let mut columns = BTreeMap::new();
        for (index, name) in header.trim_start_matches('\u{feff}').split(',').map(str::trim).enumerate() {
            if !known.contains(&name) {
                return wrong(1, format!("column {name:?} is not known; known are {}", known.join(", ")));
            }
            if columns.insert(name, index).is_some() {
                return wrong(1, format!("column '{name}' is there twice"));
            }
        }
        if let Some(missing) = needed.iter().find(|name| !columns.contains_key(*name)) {
            return wrong(1, format!("column '{missing}' is missing; needed are {}", needed.join(", ")));
        }
        Ok(Table { columns, lines })
    }

    pub(crate) fn next(&mut self) -> Option<Result<Row<'a>, TraceError>> {
        let (index, text) = self.lines.find(|(_, text)| !text.trim().is_empty())?;
        let line = index + 1;
        if text.len() > LONGEST {
            return Some(wrong(line, format!("the line has {} bytes; this is no trace", text.len())));
        }
        let cells: Vec<&str> = text.split(',').map(str::trim).collect();
        if cells.len() != self.columns.len() {
            let (has, should) = (cells.len(), self.columns.len());
            return Some(wrong(line, format!("{has} values where the first line names {should} columns")));
        }
        Some(Ok(Row { line, cells }))
    }

    pub(crate) fn text(&self, row: &Row<'a>, column: &str) -> &'a str {
        self.columns.get(column).and_then(|index| row.cells.get(*index)).copied().unwrap_or("")
    }

    pub(crate) fn number(&self, row: &Row<'a>, column: &str, most: u64) -> Result<u64, TraceError> {
        let text = self.text(row, column);
        // Some tools write whole numbers as 8.0.
        let digits = text.strip_suffix(".0").unwrap_or(text);
        match digits.parse::<u64>() {
            Ok(number) if number <= most => Ok(number),
            Ok(number) => wrong(row.line, format!("{column} is {number}; more than {most} can not be meant")),
            Err(_) => wrong(
                row.line,
                format!("{column} is '{text}'; it must be a whole number that is not negative"),
            ),
        }
    }

    pub(crate) fn optional(&self, row: &Row<'a>, column: &str) -> Result<Option<u64>, TraceError> {
        match self.text(row, column) {
            "" | "nan" => Ok(None),
            _ => self.number(row, column, u64::MAX).map(Some),
        }
    }

    pub(crate) fn name(
        &self,
        row: &Row<'a>,
        column: &str,
        seen: &mut BTreeMap<&'a str, usize>,
    ) -> Result<String, TraceError> {
        let name = self.text(row, column);
        if name.is_empty() {
            return wrong(row.line, format!("{column} is empty; every line needs a name"));
        }
        if seen.len() >= MOST_ENTRIES {
            return wrong(row.line, format!("more than {MOST_ENTRIES} entries; simulate them in parts"));
        }
        if let Some(before) = seen.insert(name, row.line) {
            return wrong(
                row.line,
                format!("'{name}' is already the name of line {before}; give every entry a name of its own"),
            );
        }
        Ok(name.to_owned())
    }
}

//! Tables that align.

/// Rows of cells under a header; columns are as wide as their widest cell.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// Columns that hold numbers and read better flush right.
    right: Vec<usize>,
}

impl Table {
    /// A table with these column names.
    pub(crate) fn new<const N: usize>(header: [&str; N]) -> Self {
        Table { rows: vec![header.iter().map(ToString::to_string).collect()], right: Vec::new() }
    }

    /// Sets columns flush right.
    pub(crate) fn right<const N: usize>(mut self, columns: [usize; N]) -> Self {
        self.right = columns.to_vec();
        self
    }

    /// Adds a row.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    /// Puts a column at a place; rows come in the order in which they were added.
    pub(crate) fn column(&mut self, at: usize, name: &str, cells: impl IntoIterator<Item = String>) {
        for (row, cell) in self.rows.iter_mut().zip([name.to_owned()].into_iter().chain(cells)) {
            row.insert(at.min(row.len()), cell);
        }
        for column in self.right.iter_mut().filter(|column| **column >= at) {
            *column += 1;
        }
    }

    /// The table as text, one line a row, without trailing blanks.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                if self.right.contains(&column) {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                }
            });
            text.push_str(cells.collect::<Vec<_>>().join("   ").trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_align_and_lines_end_clean() {
        let mut table = Table::new(["GPU", "NAME", "MIB"]).right([2]);
        table.row(["0".to_owned(), "Tesla T4".to_owned(), "15360".to_owned()]);
        table.row(["1".to_owned(), "é".to_owned(), "7".to_owned()]);
        assert_eq!(
            table.render(),
            "GPU   NAME         MIB\n0     Tesla T4   15360\n1     é              7\n"
        );
        table.column(1, "USED", ["-".to_owned(), "alone".to_owned()]);
        assert_eq!(
            table.render(),
            "GPU   USED    NAME         MIB\n0     -       Tesla T4   15360\n1     alone   é              7\n"
        );
    }
}

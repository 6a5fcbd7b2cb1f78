//! What was asked of the machine, what was seen, and whether that is right: a table for people, JSON for programs.

use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// One question and its answer.
#[derive(Debug)]
struct Row {
    part: &'static str,
    asked: String,
    seen: String,
    passed: bool,
}

/// All of them, in the order in which they were asked.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    facts: Vec<(&'static str, String)>,
}

/// What is not right ends a part of the trial; the row that says so is in the report already.
#[derive(Debug)]
pub(crate) struct Stopped;

impl Report {
    /// Something about the machine that readers should know.
    pub(crate) fn fact(&mut self, name: &'static str, value: impl Into<String>) {
        self.facts.push((name, value.into()));
    }

    /// Notes what was seen. An `Err` is an answer that is not right.
    pub(crate) fn row(
        &mut self,
        part: &'static str,
        asked: impl Into<String>,
        seen: Result<String, String>,
    ) -> Result<(), Stopped> {
        let passed = seen.is_ok();
        let seen = seen.unwrap_or_else(|why| why).trim().replace('\n', "; ");
        let row = Row { part, asked: asked.into(), seen, passed };
        eprintln!("{}", line(&row, 0));
        self.rows.push(row);
        if passed { Ok(()) } else { Err(Stopped) }
    }

    /// Whether everything that was asked was right, and anything was asked at all.
    pub(crate) fn passed(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|row| row.passed)
    }

    /// The table.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        let names = self.facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in &self.facts {
            let _ = writeln!(text, "{name:<names$}  {value}");
        }
        let width = self.rows.iter().map(|row| row.asked.chars().count()).max().unwrap_or(0);
        for row in &self.rows {
            let _ = writeln!(text, "{}", line(row, width));
        }
        let wrong = self.rows.iter().filter(|row| !row.passed).count();
        let _ = writeln!(text, "{} asked, {wrong} not right", self.rows.len());
        text
    }

    fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| json!({"part": row.part, "asked": row.asked, "seen": row.seen, "passed": row.passed}))
            .collect();
        let facts: serde_json::Map<String, Value> =
            self.facts.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        json!({"machine": facts, "passed": self.passed(), "rows": rows})
    }

    /// Writes the report as JSON.
    pub(crate) fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut text = serde_json::to_string_pretty(&self.json())?;
        text.push('\n');
        std::fs::write(path, text)
    }
}

fn line(row: &Row, width: usize) -> String {
    let word = if row.passed { "right" } else { "WRONG" };
    format!("{word}  {:<4}  {:<width$}  {}", row.part, row.asked, row.seen)
}

//! What can be asked of ledgers over HTTP, by agents' callers and by those of the controller alike.

use super::opencost::{Aggregate, opencost};
use super::report::{CostReport, Covered};
use super::window::Window;
use crate::ledger::By;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

/// What is asked for when nothing is said.
const USUAL: &str = "24h";

/// Everything that a query can say.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Question {
    since: Option<String>,
    window: Option<String>,
    by: Option<String>,
    aggregate: Option<String>,
    step: Option<String>,
}

/// What is wrong with a question, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct WrongQuestion(pub String);

/// How finely ledgers are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// One for the whole window.
    All,
    /// One for each hour.
    Hour,
}

impl Question {
    /// The window, as it was written.
    pub fn since(&self) -> &str {
        self.since.as_deref().or(self.window.as_deref()).unwrap_or(USUAL)
    }

    /// The window; `now` is in seconds since 1970.
    pub fn window(&self, now: i64) -> Result<Window, WrongQuestion> {
        Window::parse(self.since(), now).map_err(|error| WrongQuestion(error.to_string()))
    }

    /// How finely.
    pub fn step(&self) -> Result<Step, WrongQuestion> {
        match self.step.as_deref() {
            None => Ok(Step::All),
            Some("hour") => Ok(Step::Hour),
            Some(other) => {
                Err(WrongQuestion(format!("step: '{other}' is not known; write hour, or leave it away")))
            }
        }
    }

    /// The report that is asked for.
    pub fn cost(&self, covered: &Covered) -> Result<CostReport, WrongQuestion> {
        let word = self.by.as_deref().unwrap_or("namespace");
        let by = By::ALL.into_iter().find(|by| by.word() == word);
        let by = by.ok_or_else(|| {
            let words: Vec<&str> = By::ALL.iter().map(|by| by.word()).collect();
            WrongQuestion(format!("by: '{word}' is not known; write one of {}", words.join(", ")))
        })?;
        Ok(CostReport::of(covered, by))
    }

    /// The same in the words of OpenCost.
    pub fn allocation(&self, covered: &Covered, window: Window) -> Result<Value, WrongQuestion> {
        let aggregate = Aggregate::parse(self.aggregate.as_deref().unwrap_or_default());
        Ok(opencost(covered, window, &aggregate.map_err(|error| WrongQuestion(error.to_string()))?))
    }
}

//! How a verb ends when it does not end well: a message for stderr and an exit code.

use std::fmt;

/// The verb could not do what was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    /// One line, or several that belong together.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
    /// Exit code.
    pub(crate) code: u8,
}

/// Exit code for "no", "refused" and "failed".
pub(crate) const FAILED: u8 = 1;
/// Exit code for input that could not be read at all.
pub(crate) const UNREADABLE: u8 = 2;

impl Failure {
    /// A failure with this message.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Failure { message: message.to_string(), hint: None, code: FAILED }
    }

    /// A failure with the message of an error and of everything behind it.
    pub(crate) fn of(error: &dyn std::error::Error) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // A transparent error repeats its source.
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            source = cause.source();
        }
        Failure::new(message)
    }

    /// A failure about which everything was said already.
    pub(crate) fn silent() -> Self {
        Failure::new("")
    }

    /// Adds what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// What a verb answers.
pub(crate) type Outcome = Result<(), Failure>;

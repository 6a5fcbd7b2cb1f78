//! The report of a study: one document, written as a page for browsers and as Markdown.
//!
//! ```text
//!   Study, answers ──▶ Document (facts, sections, tables, pictures) ──▶ HTML, one file
//!                                                                  └──▶ Markdown, and pictures beside it
//! ```
//!
//! Both are written from the same [`Document`], so that they always say the same. What follows from the figures is
//! not found here: whoever calls passes it as finished sections, and they come before the figures.

mod answers;
mod bars;
pub(crate) mod braces;
mod canvas;
mod contents;
mod document;
#[cfg(test)]
mod example;
mod heat;
mod html;
mod interference;
mod latency;
mod markdown;
mod mishaps;
mod missing;
mod reading;
mod start_up;
mod workloads;

pub use document::{Block, Column, Document, Picture, Section, Table};

use crate::Study;

/// The report as Markdown, which refers to its pictures as `FOLDER/NAME.svg`.
pub fn markdown(study: &Study, folder: &str) -> String {
    document(study).markdown(folder)
}

/// The report as one page that needs nothing else: no script, no other file, no network.
pub fn html(study: &Study) -> String {
    document(study).html()
}

/// The pictures that the Markdown refers to.
pub fn pictures(study: &Study) -> Vec<Picture> {
    document(study).pictures().into_iter().cloned().collect()
}

fn document(study: &Study) -> Document {
    Document::of(study, &answers::answers(study))
}

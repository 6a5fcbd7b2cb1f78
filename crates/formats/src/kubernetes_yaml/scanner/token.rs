//! What the scanner hands to the event parser.

use super::cursor::Mark;

/// A token with its extent.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::kubernetes_yaml) struct Token {
    pub(in crate::kubernetes_yaml) kind: TokenKind,
    pub(in crate::kubernetes_yaml) start: Mark,
    pub(in crate::kubernetes_yaml) end: Mark,
}

/// The kinds of token of YAML 1.1.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::kubernetes_yaml) enum TokenKind {
    StreamStart,
    StreamEnd,
    VersionDirective { major: u8, minor: u8 },
    TagDirective { handle: String, prefix: String },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(String),
    Anchor(String),
    Tag { handle: String, suffix: String },
    Scalar(ScalarToken),
}

/// A scalar as written.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::kubernetes_yaml) struct ScalarToken {
    pub(in crate::kubernetes_yaml) text: String,
    /// Written without quotes and not as a block, so that its text decides its type.
    pub(in crate::kubernetes_yaml) plain: bool,
    /// Where the lines of a literal block stand in the source.
    pub(in crate::kubernetes_yaml) literal: Option<LiteralBlock>,
}

/// The place of a literal block scalar (`|`): line `n` of its text is line `first_line + n` of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiteralBlock {
    /// Line of the source (from 1) that holds the first line of the text.
    pub first_line: usize,
    /// Columns that the source has before the text in each line.
    pub indent: usize,
}

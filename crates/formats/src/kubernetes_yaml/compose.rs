//! Tokens to a tree of what was written: anchors are known, aliases point, nothing is resolved yet.
//!
//! The grammar is followed as Go's library follows it, with its leniency: whatever stands behind the first complete
//! node of a document ends that document.

use super::problem::{Problem, Stage};
use super::scanner::{LiteralBlock, MAX_DEPTH, Mark, ScalarToken, Scanner, Token, TokenKind};
use std::collections::BTreeMap;

/// A node's place in its [`Tree`].
pub(super) type NodeId = usize;

#[derive(Debug, Clone)]
pub(super) struct RawNode {
    pub(super) at: Mark,
    pub(super) kind: RawKind,
}

#[derive(Debug, Clone)]
pub(super) enum RawKind {
    Scalar(RawScalar),
    Sequence(Vec<NodeId>),
    Mapping(Vec<(NodeId, NodeId)>),
    Alias { name: String, target: NodeId },
}

#[derive(Debug, Clone, Default)]
pub(super) struct RawScalar {
    pub(super) text: String,
    /// The whole tag, or nothing.
    pub(super) tag: String,
    /// Whether the text decides the type.
    pub(super) implicit: bool,
    pub(super) literal: Option<LiteralBlock>,
}

/// All nodes of one document.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: Vec<RawNode>,
    pub(super) root: NodeId,
}

impl Tree {
    pub(super) fn get(&self, id: NodeId) -> Option<&RawNode> {
        self.nodes.get(id)
    }
}

/// Reads the documents of a stream one after another.
#[derive(Debug)]
pub(super) struct Composer {
    scanner: Scanner,
    first: bool,
    tree: Tree,
    anchors: BTreeMap<String, NodeId>,
    /// Tag handle and what it stands for.
    tag_directives: Vec<(String, String)>,
    depth: usize,
}

const CORE_TAGS: &str = "tag:yaml.org,2002:";

impl Composer {
    pub(super) fn new(text: &str) -> Self {
        Composer {
            scanner: Scanner::new(text),
            first: true,
            tree: Tree::default(),
            anchors: BTreeMap::new(),
            tag_directives: Vec::new(),
            depth: 0,
        }
    }

    /// The next document, or `None` at the end of the stream.
    pub(super) fn document(&mut self) -> Result<Option<Tree>, Problem> {
        let implicit = std::mem::take(&mut self.first);
        if implicit {
            self.next_kind()?;
            self.scanner.take();
        }
        self.tree = Tree::default();
        self.anchors.clear();
        self.tag_directives.clear();
        if !implicit {
            while self.next_kind()? == TokenKind::DocumentEnd {
                self.scanner.take();
            }
        }
        self.tree.root = match self.next_kind()? {
            TokenKind::StreamEnd => return Ok(None),
            TokenKind::VersionDirective { .. }
            | TokenKind::TagDirective { .. }
            | TokenKind::DocumentStart => self.explicit_document()?,
            _ if implicit => {
                self.default_tag_directives();
                self.node(true, false)?
            }
            _ => self.explicit_document()?,
        };
        // What ends the document must be a token, whatever it is.
        if self.next_kind()? == TokenKind::DocumentEnd {
            self.scanner.take();
        }
        Ok(Some(std::mem::take(&mut self.tree)))
    }

    fn explicit_document(&mut self) -> Result<NodeId, Problem> {
        self.directives()?;
        let start = self.scanner.peek()?.start;
        if self.next_kind()? != TokenKind::DocumentStart {
            return Err(parser_problem("did not find expected <document start>", start, Mark::default()));
        }
        self.scanner.take();
        let mark = self.scanner.peek()?.start;
        match self.next_kind()? {
            TokenKind::VersionDirective { .. }
            | TokenKind::TagDirective { .. }
            | TokenKind::DocumentStart
            | TokenKind::DocumentEnd
            | TokenKind::StreamEnd => Ok(self.empty_scalar(mark)),
            _ => self.node(true, false),
        }
    }

    fn directives(&mut self) -> Result<(), Problem> {
        let mut versioned = false;
        loop {
            let token = self.scanner.peek()?;
            let at = token.start;
            match &token.kind {
                TokenKind::VersionDirective { major, minor } => {
                    if versioned {
                        return Err(parser_problem("found duplicate %YAML directive", at, Mark::default()));
                    }
                    if (*major, *minor) != (1, 1) {
                        return Err(parser_problem("found incompatible YAML document", at, Mark::default()));
                    }
                    versioned = true;
                }
                TokenKind::TagDirective { handle, prefix } => {
                    if self.tag_directives.iter().any(|(known, _)| known == handle) {
                        return Err(parser_problem("found duplicate %TAG directive", at, Mark::default()));
                    }
                    self.tag_directives.push((handle.clone(), prefix.clone()));
                }
                _ => break,
            }
            self.scanner.take();
        }
        self.default_tag_directives();
        Ok(())
    }

    fn default_tag_directives(&mut self) {
        for (handle, prefix) in [("!", "!"), ("!!", CORE_TAGS)] {
            if !self.tag_directives.iter().any(|(known, _)| known == handle) {
                self.tag_directives.push((handle.to_owned(), prefix.to_owned()));
            }
        }
    }

    /// The kind of the next token. Cheap where it is compared: only names and scalars own text.
    fn next_kind(&mut self) -> Result<TokenKind, Problem> {
        Ok(match &self.scanner.peek()?.kind {
            TokenKind::Scalar(_) => TokenKind::Scalar(ScalarToken::default()),
            other => other.clone(),
        })
    }

    fn add(&mut self, at: Mark, kind: RawKind) -> NodeId {
        self.tree.nodes.push(RawNode { at, kind });
        self.tree.nodes.len() - 1
    }

    fn fill(&mut self, id: NodeId, kind: RawKind) {
        if let Some(node) = self.tree.nodes.get_mut(id) {
            node.kind = kind;
        }
    }

    fn empty_scalar(&mut self, at: Mark) -> NodeId {
        self.add(at, RawKind::Scalar(RawScalar { implicit: true, ..RawScalar::default() }))
    }

    fn node(&mut self, block: bool, indentless: bool) -> Result<NodeId, Problem> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let at = self.scanner.peek()?.start;
            return Err(Problem {
                ours_only: true,
                ..parser_problem(format!("nested deeper than {MAX_DEPTH} levels"), at, at)
            });
        }
        let node = self.node_here(block, indentless);
        self.depth -= 1;
        node
    }

    fn node_here(&mut self, block: bool, indentless: bool) -> Result<NodeId, Problem> {
        let start = self.scanner.peek()?.start;
        if let TokenKind::Alias(name) = self.next_kind()? {
            self.scanner.take();
            let Some(&target) = self.anchors.get(&name) else {
                return Err(Problem::composer(format!("unknown anchor '{name}' referenced"), start));
            };
            return Ok(self.add(start, RawKind::Alias { name, target }));
        }
        let (anchor, tag) = self.properties(start)?;
        let implicit = tag.is_empty();
        let id = match self.next_kind()? {
            TokenKind::BlockEntry if indentless => self.indentless_sequence(start, anchor)?,
            TokenKind::Scalar(_) => {
                let Some(Token { kind: TokenKind::Scalar(scalar), .. }) = self.scanner.take() else {
                    return Err(parser_problem("did not find expected node content", start, start));
                };
                let implicit = (implicit && scalar.plain) || tag == "!";
                let ScalarToken { text, literal, .. } = scalar;
                let id = self.add(start, RawKind::Scalar(RawScalar { text, tag, implicit, literal }));
                self.name(anchor, id);
                id
            }
            TokenKind::FlowSequenceStart => self.flow_sequence(start, anchor)?,
            TokenKind::FlowMappingStart => self.flow_mapping(start, anchor)?,
            TokenKind::BlockSequenceStart if block => self.block_sequence(start, anchor)?,
            TokenKind::BlockMappingStart if block => self.block_mapping(start, anchor)?,
            _ if anchor.is_some() || !tag.is_empty() => {
                let scalar = RawScalar { tag, implicit, ..RawScalar::default() };
                let id = self.add(start, RawKind::Scalar(scalar));
                self.name(anchor, id);
                id
            }
            _ => {
                let at = self.scanner.peek()?.start;
                return Err(parser_problem("did not find expected node content", at, start));
            }
        };
        Ok(id)
    }

    /// The anchor and the whole tag in front of a node, in either order.
    fn properties(&mut self, start: Mark) -> Result<(Option<String>, String), Problem> {
        let mut anchor = None;
        let mut tag = None;
        for _ in 0..2 {
            let at = self.scanner.peek()?.start;
            match self.next_kind()? {
                TokenKind::Anchor(name) if anchor.is_none() => anchor = Some(name),
                TokenKind::Tag { handle, suffix } if tag.is_none() => tag = Some((handle, suffix, at)),
                _ => break,
            }
            self.scanner.take();
        }
        // The next token is read before the tag is looked up: its problem comes first.
        self.scanner.peek()?;
        let Some((handle, suffix, tag_at)) = tag else { return Ok((anchor, String::new())) };
        if handle.is_empty() {
            return Ok((anchor, suffix));
        }
        match self.tag_directives.iter().find(|(known, _)| *known == handle) {
            Some((_, prefix)) if !(prefix.is_empty() && suffix.is_empty()) => {
                Ok((anchor, format!("{prefix}{suffix}")))
            }
            _ => Err(parser_problem("found undefined tag handle", tag_at, start)),
        }
    }

    fn name(&mut self, anchor: Option<String>, id: NodeId) {
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, id);
        }
    }

    fn begin(&mut self, start: Mark, anchor: Option<String>, kind: RawKind) -> NodeId {
        let id = self.add(start, kind);
        self.name(anchor, id);
        id
    }

    fn block_sequence(&mut self, start: Mark, anchor: Option<String>) -> Result<NodeId, Problem> {
        let context = self.scanner.peek()?.start;
        self.scanner.take();
        let id = self.begin(start, anchor, RawKind::Sequence(Vec::new()));
        let mut items = Vec::new();
        loop {
            let (at, end) = self.extent()?;
            match self.next_kind()? {
                TokenKind::BlockEntry => {
                    self.scanner.take();
                    items.push(match self.next_kind()? {
                        TokenKind::BlockEntry | TokenKind::BlockEnd => self.empty_scalar(end),
                        _ => self.node(true, false)?,
                    });
                }
                TokenKind::BlockEnd => break,
                _ => return Err(parser_problem("did not find expected '-' indicator", at, context)),
            }
        }
        self.scanner.take();
        self.fill(id, RawKind::Sequence(items));
        Ok(id)
    }

    fn indentless_sequence(&mut self, start: Mark, anchor: Option<String>) -> Result<NodeId, Problem> {
        let id = self.begin(start, anchor, RawKind::Sequence(Vec::new()));
        let mut items = Vec::new();
        while self.next_kind()? == TokenKind::BlockEntry {
            let (_, end) = self.extent()?;
            self.scanner.take();
            items.push(match self.next_kind()? {
                TokenKind::BlockEntry | TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd => {
                    self.empty_scalar(end)
                }
                _ => self.node(true, false)?,
            });
        }
        self.fill(id, RawKind::Sequence(items));
        Ok(id)
    }

    fn block_mapping(&mut self, start: Mark, anchor: Option<String>) -> Result<NodeId, Problem> {
        let context = self.scanner.peek()?.start;
        self.scanner.take();
        let id = self.begin(start, anchor, RawKind::Mapping(Vec::new()));
        let mut entries = Vec::new();
        loop {
            let (at, end) = self.extent()?;
            match self.next_kind()? {
                TokenKind::Key => {
                    self.scanner.take();
                    let key = self.block_part(end)?;
                    let (at, end) = self.extent()?;
                    let value = if self.next_kind()? == TokenKind::Value {
                        self.scanner.take();
                        self.block_part(end)?
                    } else {
                        self.empty_scalar(at)
                    };
                    entries.push((key, value));
                }
                TokenKind::BlockEnd => break,
                _ => return Err(parser_problem("did not find expected key", at, context)),
            }
        }
        self.scanner.take();
        self.fill(id, RawKind::Mapping(entries));
        Ok(id)
    }

    /// A key or a value of a block mapping, which may be left out.
    fn block_part(&mut self, empty_at: Mark) -> Result<NodeId, Problem> {
        match self.next_kind()? {
            TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd => Ok(self.empty_scalar(empty_at)),
            _ => self.node(true, true),
        }
    }

    fn flow_sequence(&mut self, start: Mark, anchor: Option<String>) -> Result<NodeId, Problem> {
        let context = self.scanner.peek()?.start;
        self.scanner.take();
        let id = self.begin(start, anchor, RawKind::Sequence(Vec::new()));
        let mut items = Vec::new();
        loop {
            if !items.is_empty() && self.next_kind()? != TokenKind::FlowSequenceEnd {
                let (at, _) = self.extent()?;
                if self.next_kind()? != TokenKind::FlowEntry {
                    return Err(parser_problem("did not find expected ',' or ']'", at, context));
                }
                self.scanner.take();
            }
            match self.next_kind()? {
                TokenKind::FlowSequenceEnd => break,
                TokenKind::Key => items.push(self.single_pair()?),
                _ => items.push(self.node(false, false)?),
            }
        }
        self.scanner.take();
        self.fill(id, RawKind::Sequence(items));
        Ok(id)
    }

    /// `key: value` directly in a flow sequence: a mapping of one.
    fn single_pair(&mut self) -> Result<NodeId, Problem> {
        let (at, _) = self.extent()?;
        self.scanner.take();
        let id = self.add(at, RawKind::Mapping(Vec::new()));
        let (_, end) = self.extent()?;
        let key = match self.next_kind()? {
            TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowSequenceEnd => {
                // As Go's library does: the token is swallowed with the empty key.
                self.scanner.take();
                self.empty_scalar(end)
            }
            _ => self.node(false, false)?,
        };
        let (at, _) = self.extent()?;
        let mut value = None;
        if self.next_kind()? == TokenKind::Value {
            self.scanner.take();
            if !matches!(self.next_kind()?, TokenKind::FlowEntry | TokenKind::FlowSequenceEnd) {
                value = Some(self.node(false, false)?);
            }
        }
        let value = match value {
            Some(value) => value,
            None => self.empty_scalar(at),
        };
        self.next_kind()?;
        self.fill(id, RawKind::Mapping(vec![(key, value)]));
        Ok(id)
    }

    fn flow_mapping(&mut self, start: Mark, anchor: Option<String>) -> Result<NodeId, Problem> {
        let context = self.scanner.peek()?.start;
        self.scanner.take();
        let id = self.begin(start, anchor, RawKind::Mapping(Vec::new()));
        let mut entries = Vec::new();
        loop {
            if !entries.is_empty() && self.next_kind()? != TokenKind::FlowMappingEnd {
                let (at, _) = self.extent()?;
                if self.next_kind()? != TokenKind::FlowEntry {
                    return Err(parser_problem("did not find expected ',' or '}'", at, context));
                }
                self.scanner.take();
            }
            match self.next_kind()? {
                TokenKind::FlowMappingEnd => break,
                TokenKind::Key => {
                    self.scanner.take();
                    let key = self.flow_part()?;
                    let value = if self.next_kind()? == TokenKind::Value {
                        self.scanner.take();
                        self.flow_part_after_value()?
                    } else {
                        let (at, _) = self.extent()?;
                        self.empty_scalar(at)
                    };
                    entries.push((key, value));
                }
                _ => {
                    let key = self.node(false, false)?;
                    let (at, _) = self.extent()?;
                    let value = self.empty_scalar(at);
                    entries.push((key, value));
                }
            }
        }
        self.scanner.take();
        self.fill(id, RawKind::Mapping(entries));
        Ok(id)
    }

    fn flow_part(&mut self) -> Result<NodeId, Problem> {
        let (at, _) = self.extent()?;
        match self.next_kind()? {
            TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowMappingEnd => Ok(self.empty_scalar(at)),
            _ => self.node(false, false),
        }
    }

    fn flow_part_after_value(&mut self) -> Result<NodeId, Problem> {
        let (at, _) = self.extent()?;
        match self.next_kind()? {
            TokenKind::FlowEntry | TokenKind::FlowMappingEnd => Ok(self.empty_scalar(at)),
            _ => self.node(false, false),
        }
    }

    fn extent(&mut self) -> Result<(Mark, Mark), Problem> {
        let token = self.scanner.peek()?;
        Ok((token.start, token.end))
    }
}

fn parser_problem(text: impl Into<std::borrow::Cow<'static, str>>, at: Mark, context: Mark) -> Problem {
    Problem { stage: Stage::Parser, text: text.into(), at, context, ours_only: false }
}

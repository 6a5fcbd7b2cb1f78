//! The written tree to its meaning: aliases copied in, merge keys applied, keys made texts, expansion bounded.

use super::compose::{NodeId, RawKind, Tree};
use super::number::Number;
use super::problem::{Problem, Stage, position};
use super::resolve::{MERGE, Scalar, resolve};
use super::scanner::{MAX_DEPTH, Mark};
use super::{Key, Mapping, Node, Value};

/// The value of a document.
pub(super) fn construct(tree: &Tree) -> Result<Node, Problem> {
    // Go counts the document as a node of its own.
    let mut constructor =
        Constructor { tree, steps: 1, alias_steps: 0, alias_depth: 0, open: Vec::new(), depth: 0 };
    let node = constructor.node(tree.root)?;
    representable(&node)?;
    Ok(node)
}

struct Constructor<'a> {
    tree: &'a Tree,
    /// Nodes visited, and how many of them inside an alias: the library bounds their ratio.
    steps: u32,
    alias_steps: u32,
    alias_depth: u32,
    /// Aliases that are being followed.
    open: Vec<NodeId>,
    depth: usize,
}

impl Constructor<'_> {
    fn step(&mut self, at: Mark) -> Result<(), Problem> {
        self.steps += 1;
        if self.alias_depth > 0 {
            self.alias_steps += 1;
        }
        let ratio = f64::from(self.alias_steps) / f64::from(self.steps);
        if self.alias_steps > 100 && self.steps > 1000 && ratio > allowed_alias_ratio(self.steps) {
            return Err(Problem::composer("document contains excessive aliasing", at));
        }
        Ok(())
    }

    fn raw(&self, id: NodeId) -> Result<(Mark, RawKind), Problem> {
        // Ids come from the tree itself; the error is there so that nothing can panic.
        match self.tree.get(id) {
            Some(node) => Ok((node.at, node.kind.clone())),
            None => Err(Problem::composer("internal: no such node", Mark::default())),
        }
    }

    fn node(&mut self, id: NodeId) -> Result<Node, Problem> {
        self.depth += 1;
        let (at, kind) = self.raw(id)?;
        if self.depth > MAX_DEPTH {
            let text = format!("nested deeper than {MAX_DEPTH} levels through aliases");
            return Err(Problem { ours_only: true, ..Problem::composer(text, at) });
        }
        self.step(at)?;
        let mut literal = None;
        let value = match kind {
            RawKind::Alias { name, target } => {
                let target = self.follow(id, &name, at, |this| this.node(target))?;
                literal = target.literal;
                target.value
            }
            RawKind::Scalar(scalar) => {
                literal = scalar.literal;
                match resolve(&scalar).map_err(|text| Problem::composer(text, at))? {
                    Scalar::Null => Value::Null,
                    Scalar::Bool(value) => Value::Bool(value),
                    Scalar::Number(value) => Value::Number(value),
                    Scalar::Text(value) => Value::String(value),
                }
            }
            RawKind::Sequence(items) => {
                let mut nodes = Vec::with_capacity(items.len());
                for item in items {
                    nodes.push(self.node(item)?);
                }
                Value::Sequence(nodes)
            }
            RawKind::Mapping(entries) => {
                let mut mapping = Mapping::default();
                self.mapping(entries, &mut mapping, false)?;
                Value::Mapping(mapping)
            }
        };
        self.depth -= 1;
        Ok(Node { value, at: position(at), literal })
    }

    fn follow<T>(
        &mut self,
        alias: NodeId,
        name: &str,
        at: Mark,
        go: impl FnOnce(&mut Self) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        if self.open.contains(&alias) {
            return Err(Problem::composer(format!("anchor '{name}' value contains itself"), at));
        }
        self.open.push(alias);
        self.alias_depth += 1;
        let result = go(self);
        self.alias_depth -= 1;
        self.open.pop();
        result
    }

    /// Later entries replace earlier ones, also those that a merge key brings, in the order in which they stand.
    fn mapping(
        &mut self,
        entries: Vec<(NodeId, NodeId)>,
        into: &mut Mapping,
        merged: bool,
    ) -> Result<(), Problem> {
        for (key, value) in entries {
            let (key_at, kind) = self.raw(key)?;
            if let RawKind::Scalar(scalar) = &kind
                && scalar.text == "<<"
                && (scalar.implicit || scalar.tag == MERGE)
            {
                self.merge(value, into)?;
                continue;
            }
            let key_node = self.node(key)?;
            if matches!(key_node.value, Value::Sequence(_) | Value::Mapping(_)) {
                return Err(Problem::composer("invalid map key: a list or a map", key_at));
            }
            let value = self.node(value)?;
            match key_text(&key_node.value) {
                Ok(text) => into.set(Key { text, at: key_node.at }, value, merged),
                Err(kind) => into.unsupported = Some(kind),
            }
        }
        Ok(())
    }

    fn merge(&mut self, id: NodeId, into: &mut Mapping) -> Result<(), Problem> {
        let (at, kind) = self.raw(id)?;
        let want_map = || Problem::composer("map merge requires map or sequence of maps as the value", at);
        match kind {
            RawKind::Mapping(_) | RawKind::Alias { .. } => self.merge_one(id, into, want_map),
            RawKind::Sequence(items) => {
                // Backwards, so that earlier ones win.
                for item in items.into_iter().rev() {
                    self.merge_one(item, into, want_map)?;
                }
                Ok(())
            }
            RawKind::Scalar(_) => Err(want_map()),
        }
    }

    fn merge_one(
        &mut self,
        id: NodeId,
        into: &mut Mapping,
        want_map: impl Fn() -> Problem,
    ) -> Result<(), Problem> {
        self.depth += 1;
        let (at, kind) = self.raw(id)?;
        if self.depth > MAX_DEPTH {
            let text = format!("nested deeper than {MAX_DEPTH} levels through merge keys");
            return Err(Problem { ours_only: true, ..Problem::composer(text, at) });
        }
        match kind {
            RawKind::Mapping(entries) => {
                self.step(at)?;
                self.mapping(entries, into, true)?;
            }
            RawKind::Alias { name, target } => {
                let RawKind::Mapping(entries) = self.raw(target)?.1 else { return Err(want_map()) };
                self.step(at)?;
                self.follow(id, &name, at, |this| {
                    this.step(at)?;
                    this.mapping(entries, into, true)
                })?;
            }
            RawKind::Scalar(_) | RawKind::Sequence(_) => return Err(want_map()),
        }
        self.depth -= 1;
        Ok(())
    }
}

/// From 99 % in small documents down to 10 % in very large ones.
fn allowed_alias_ratio(steps: u32) -> f64 {
    const LOW: f64 = 400_000.0;
    const HIGH: f64 = 4_000_000.0;
    let steps = f64::from(steps).clamp(LOW, HIGH);
    0.99 - 0.89 * ((steps - LOW) / (HIGH - LOW))
}

/// Keys that are no texts become texts on the way to JSON. The error is the Go type that can not.
fn key_text(value: &Value) -> Result<String, &'static str> {
    Ok(match value {
        Value::String(text) => text.clone(),
        Value::Bool(value) => value.to_string(),
        Value::Number(Number::Integer(value)) => value.to_string(),
        Value::Number(Number::Large(_)) => return Err("uint64"),
        Value::Number(number @ Number::Float(_)) => match number.coerced_text().as_str() {
            "+Inf" => ".inf".to_owned(),
            "-Inf" => "-.inf".to_owned(),
            "NaN" => ".nan".to_owned(),
            other => other.to_owned(),
        },
        Value::Null | Value::Sequence(_) | Value::Mapping(_) => return Err("%!s(<nil>)"),
    })
}

/// JSON has no infinity, no not-a-number, and no keys but texts.
fn representable(node: &Node) -> Result<(), Problem> {
    let refuse = |text: String| {
        // Positions count from 1.
        let at =
            Mark { index: 0, line: node.at.line.saturating_sub(1), column: node.at.column.saturating_sub(1) };
        Err(Problem { stage: Stage::Convert, ..Problem::composer(text, at) })
    };
    match &node.value {
        Value::Number(number @ Number::Float(value)) if !value.is_finite() => {
            refuse(format!("json: unsupported value: {number}"))
        }
        Value::Sequence(items) => items.iter().try_for_each(representable),
        Value::Mapping(mapping) => {
            if let Some(kind) = mapping.unsupported {
                return refuse(format!("unsupported map key of type: {kind}"));
            }
            mapping.iter().try_for_each(|(_, value)| representable(value))
        }
        _ => Ok(()),
    }
}

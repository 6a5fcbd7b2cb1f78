//! Karpenter's documents of v1alpha5, which no release since 0.33 reads, as NodePools of v1.
//!
//! What v1alpha5 left unsaid meant something else than in v1, so defaults are written out. A note says of everything what became of
//! it unless it just moved.

mod provisioner;
mod requirements;

use crate::Refusal;
use serde_json::Value;
use std::fmt;

/// What became of old documents.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Translation {
    /// NodePools in the place of what they are made from, and everything else of the file as it was.
    pub documents: Vec<Value>,
    /// What was dropped or guessed.
    pub notes: Vec<Note>,
}

/// Something that was dropped or guessed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Which document: `Provisioner/gpu`.
    pub document: String,
    /// Where in it: `spec.requirements[0]`. Empty for the whole of it.
    pub field: String,
    /// What became of it, and why.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => write!(f, "{}: {}", self.document, self.text),
            field => write!(f, "{}: {field}: {}", self.document, self.text),
        }
    }
}

/// Notes about one document.
struct Notes<'a> {
    document: String,
    all: &'a mut Vec<Note>,
}

impl Notes<'_> {
    fn add(&mut self, field: impl Into<String>, text: impl Into<String>) {
        self.all.push(Note { document: self.document.clone(), field: field.into(), text: text.into() });
    }
}

const OLD: &str = "karpenter.sh/v1alpha5";

fn kind(document: &Value) -> &str {
    document["kind"].as_str().unwrap_or_default()
}

fn name(document: &Value) -> &str {
    document["metadata"]["name"].as_str().unwrap_or_default()
}

fn is_old(document: &Value) -> bool {
    document["apiVersion"] == OLD
}

/// Whether it configured machines of AWS beside v1alpha5.
fn is_old_class(document: &Value) -> bool {
    document["apiVersion"] == "karpenter.k8s.aws/v1alpha1" && kind(document) == "AWSNodeTemplate"
}

/// Whether a pool can be made of a document at all.
fn check(document: &Value) -> Result<(), Refusal> {
    if name(document).is_empty() {
        let reason = format!("a {} of v1alpha5 has no name", kind(document));
        return Err(Refusal::new("metadata.name", reason, "give it the name that its NodePool should have"));
    }
    // Without any, everything is as v1alpha5 had it by default.
    if !document["spec"].is_object() && !document["spec"].is_null() {
        let reason = format!("that of {}/{} has no fields", kind(document), name(document));
        return Err(Refusal::new(
            "spec",
            reason,
            "write what it wants, or take the document out of the file",
        ));
    }
    Ok(())
}

/// Translates what is Karpenter's of v1alpha5 among the documents of a file, or refuses all of it. `None` where nothing is.
pub fn translate(documents: &[Value]) -> Option<Result<Translation, Refusal>> {
    let old = documents.iter().any(|document| is_old(document) || is_old_class(document));
    old.then(|| translate_all(documents))
}

fn translate_all(documents: &[Value]) -> Result<Translation, Refusal> {
    let pools =
        |document: &&Value| is_old(document) && ["Provisioner", "NodeTemplate"].contains(&kind(document));
    documents.iter().filter(pools).try_for_each(check)?;
    let mut translation = Translation::default();
    let templates: Vec<&Value> =
        documents.iter().filter(|document| is_old(document) && kind(document) == "NodeTemplate").collect();
    let mut used: Vec<&str> = Vec::new();
    for document in documents {
        if !is_old(document) && !is_old_class(document) {
            translation.documents.push(document.clone());
            continue;
        }
        let called = format!("{}/{}", kind(document), name(document));
        let mut notes = Notes { document: called, all: &mut translation.notes };
        if is_old_class(document) {
            notes.add(
                "",
                "EC2NodeClass of karpenter.k8s.aws/v1 took its place and needs a role and terms that no AWSNodeTemplate has; write \
                 it under the same name",
            );
            continue;
        }
        match kind(document) {
            "Provisioner" => {
                let wanted = document["spec"]["providerRef"]["name"].as_str();
                let template = templates.iter().copied().find(|template| Some(name(template)) == wanted);
                used.extend(template.map(name));
                translation.documents.push(provisioner::translate(document, template, &mut notes));
            }
            "NodeTemplate" => {}
            "Machine" => notes.add("", "Karpenter makes them itself, as NodeClaims by now; it is left out"),
            other => notes.add("", format!("v1alpha5 has no {other}; it is left out")),
        }
    }
    for template in templates.into_iter().filter(|template| !used.contains(&name(template))) {
        let called = format!("NodeTemplate/{}", name(template));
        let mut notes = Notes { document: called, all: &mut translation.notes };
        notes.add("", "no Provisioner names it; it became a NodePool of its own");
        translation.documents.push(provisioner::translate(template, None, &mut notes));
    }
    Ok(translation)
}

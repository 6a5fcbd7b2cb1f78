//! What objects are called.

use serde::{Deserialize, Serialize};

/// A kind of objects, as paths name it: `pods`, `deployments.apps`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Resource(pub String);

impl Resource {
    /// A kind of a group; the first group has no name.
    pub fn new(plural: &str, group: &str) -> Self {
        Resource(if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") })
    }
}

/// An object. What belongs to no namespace has an empty one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// Its kind.
    pub resource: Resource,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{}/{}", self.resource.0, self.name),
            namespace => write!(f, "{}/{namespace}/{}", self.resource.0, self.name),
        }
    }
}

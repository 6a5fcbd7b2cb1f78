//! What a request is about: which objects, and what is to be done with them.

use crate::failure::Failure;
use crate::resources::Kind;
use axum::http::{Method, Uri};
use carve_object_store::Key;
use std::collections::BTreeMap;

/// A request for objects.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) kind: &'static Kind,
    /// Where, unless it is everywhere.
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    /// Only this part of it.
    pub(crate) part: Option<String>,
    pub(crate) method: Method,
    pub(crate) query: BTreeMap<String, String>,
}

/// Reads what stands behind the `?`.
fn query(uri: &Uri) -> BTreeMap<String, String> {
    let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(&value.replace('+', " ")))
        })
        .collect()
}

/// Takes `%20` for a blank, and so on; what is no such code stays as it is.
pub(crate) fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, more)) = rest.split_first() {
        let code = (*first == b'%').then(|| std::str::from_utf8(more.get(..2)?).ok()).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &more[2..];
            }
            None => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Asked {
    /// What somebody within the process asks.
    pub(crate) fn inside(kind: &'static Kind, namespace: &str, name: Option<&str>) -> Self {
        Asked {
            kind,
            namespace: kind.namespaced.then(|| namespace.to_owned()),
            name: name.map(str::to_owned),
            part: None,
            method: Method::POST,
            query: BTreeMap::new(),
        }
    }

    pub(crate) fn read(method: &Method, uri: &Uri) -> Result<Self, Failure> {
        let path = uri.path();
        let unknown = || Failure::no_such_path(path);
        let words: Vec<String> = path.split('/').filter(|word| !word.is_empty()).map(decoded).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (group, version, rest) = match &words[..] {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Err(unknown()),
        };
        let (namespace, rest) = match rest {
            // `namespaces/NAME` alone is the namespace itself, and so are its parts.
            ["namespaces", namespace, inside @ ..]
                if !inside.is_empty() && !matches!(inside, ["status" | "finalize"]) =>
            {
                (Some((*namespace).to_owned()), inside)
            }
            _ => (None, rest),
        };
        let (plural, name, part) = match rest {
            [plural] => (*plural, None, None),
            [plural, name] => (*plural, Some((*name).to_owned()), None),
            [plural, name, part] => (*plural, Some((*name).to_owned()), Some((*part).to_owned())),
            _ => return Err(unknown()),
        };
        let kind = Kind::by_path(group, version, plural).ok_or_else(unknown)?;
        if namespace.is_some() != kind.namespaced && (namespace.is_some() || name.is_some()) {
            return Err(unknown());
        }
        if part.as_deref().is_some_and(|part| !kind.parts.contains(&part)) {
            return Err(unknown());
        }
        let query = query(uri);
        for number in ["timeoutSeconds", "limit", "gracePeriodSeconds"] {
            if let Some(text) = query.get(number).filter(|text| !text.is_empty())
                && text.parse::<i64>().is_err()
            {
                let why = format!("'{text}' is no whole number");
                return Err(Failure::unreadable(format!("{number}: {why}"), number, &why));
            }
        }
        Ok(Asked { kind, namespace, name, part, method: method.clone(), query })
    }

    pub(crate) fn is(&self, flag: &str) -> bool {
        matches!(self.query.get(flag).map(String::as_str), Some("true" | "1"))
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Whether it is only to be seen what would become of it.
    pub(crate) fn is_rehearsal(&self) -> Result<bool, Failure> {
        match self.parameter("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => Err(Failure::bad_request(format!("dryRun: '{other}' is not known; write All"))),
        }
    }

    /// The object, for a request that names one.
    pub(crate) fn key(&self, name: &str) -> Key {
        Key {
            resource: self.kind.resource(),
            namespace: self.namespace.clone().unwrap_or_default(),
            name: name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, decoded};
    use axum::http::Method;

    /// Kind, namespace, name and part.
    type Parts = (String, Option<String>, Option<String>, Option<String>);

    fn asked(uri: &str) -> Option<Parts> {
        let asked = Asked::read(&Method::GET, &uri.parse().expect("a path")).ok()?;
        Some((asked.kind.named(), asked.namespace, asked.name, asked.part))
    }

    #[test]
    fn paths_name_objects_as_kubernetes_has_it() {
        let some = |text: &str| Some(text.to_owned());
        for (uri, expected) in [
            ("/api/v1/pods", ("pods", None, None, None)),
            ("/api/v1/nodes/a", ("nodes", None, some("a"), None)),
            ("/api/v1/namespaces/a", ("namespaces", None, some("a"), None)),
            ("/api/v1/namespaces/a/status", ("namespaces", None, some("a"), some("status"))),
            ("/api/v1/namespaces/a/pods/b", ("pods", some("a"), some("b"), None)),
            ("/api/v1/namespaces/a/pods/b/binding", ("pods", some("a"), some("b"), some("binding"))),
            ("/apis/apps/v1/namespaces/a/deployments", ("deployments.apps", some("a"), None, None)),
            ("/apis/carve.dev/v1beta1/slicepolicies/p", ("slicepolicies.carve.dev", None, some("p"), None)),
        ] {
            let (kind, namespace, name, part) = expected;
            assert_eq!(asked(uri), Some((kind.to_owned(), namespace, name, part)), "{uri}");
        }
        for uri in [
            "/api/v1/nonsense",
            "/api/v1/pods/b",
            "/api/v1/namespaces/a/nodes",
            "/api/v1/namespaces/a/pods/b/logs/x",
            "/api/v1/namespaces/a/pods/b/portforward",
            "/apis/apps/v2/deployments",
        ] {
            assert_eq!(asked(uri), None, "{uri}");
        }
    }

    #[test]
    fn codes_in_queries_are_read() {
        assert_eq!(decoded("a%3Db%2Cc%20d%zz%"), "a=b,c d%zz%");
    }
}

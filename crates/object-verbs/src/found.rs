//! Which kind of objects is meant.

use crate::VerbError;
use futures_util::future::join_all;
use http::Request;
use kube::Client;
use kube::core::ApiResource;
use serde_json::Value;

/// A kind of objects that the other side knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it is called in all ways.
    pub resource: ApiResource,
    /// Whether it is in a namespace.
    pub namespaced: bool,
}

impl Found {
    /// As people read it: `deployment.apps`.
    pub fn title(&self) -> String {
        let kind = self.resource.kind.to_lowercase();
        match self.resource.group.as_str() {
            "" => kind,
            group => format!("{kind}.{group}"),
        }
    }

    /// As paths have it: `/apis/apps/v1`.
    pub fn root(&self) -> String {
        match self.resource.group.as_str() {
            "" => format!("/api/{}", self.resource.version),
            group => format!("/apis/{group}/{}", self.resource.version),
        }
    }
}

async fn ask(client: &Client, path: &str) -> Result<Value, VerbError> {
    let request = Request::get(path).body(Vec::new());
    let request = request.map_err(|error| VerbError::new(400, format!("{path}: {error}")))?;
    Ok(client.request(request).await?)
}

/// Kinds of one version of a group, with the names people use.
fn kinds(list: &Value) -> Vec<(Found, Vec<String>)> {
    let (group, version) = match list["groupVersion"].as_str().unwrap_or_default().split_once('/') {
        Some((group, version)) => (group.to_owned(), version.to_owned()),
        None => (String::new(), list["groupVersion"].as_str().unwrap_or_default().to_owned()),
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resources = list["resources"].as_array().into_iter().flatten();
    resources
        .filter(|one| !text(&one["name"]).contains('/'))
        .map(|one| {
            let (plural, kind) = (text(&one["name"]), text(&one["kind"]));
            let mut names = vec![plural.clone(), text(&one["singularName"]), kind.to_lowercase()];
            names.extend(one["shortNames"].as_array().into_iter().flatten().map(text));
            let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
            let resource =
                ApiResource { group: group.clone(), version: version.clone(), api_version, kind, plural };
            (Found { resource, namespaced: one["namespaced"] == true }, names)
        })
        .collect()
}

/// The kind that an object says that it is.
pub async fn find(client: &Client, api_version: &str, kind: &str) -> Result<Found, VerbError> {
    // It becomes a part of a path.
    if api_version.is_empty()
        || !api_version.bytes().all(|letter| letter.is_ascii_alphanumeric() || b"./-".contains(&letter))
    {
        let failure =
            VerbError::new(400, format!("'{}' is no version of an API", api_version.escape_debug()));
        return Err(VerbError { field: Some("apiVersion".to_owned()), ..failure }
            .hint("write for example apiVersion: apps/v1"));
    }
    let path = if api_version.contains('/') {
        format!("/apis/{api_version}")
    } else {
        format!("/api/{api_version}")
    };
    let unknown = || {
        let failure =
            VerbError::new(404, format!("no kind \"{kind}\" in version \"{api_version}\" is known here"));
        VerbError { field: Some("kind".to_owned()), ..failure }
            .hint("carve get --help names those that carve up has; a cluster may lack a definition")
    };
    let list = match ask(client, &path).await {
        Err(error) if error.code == 404 => return Err(unknown()),
        list => list?,
    };
    kinds(&list)
        .into_iter()
        .map(|(found, _)| found)
        .find(|found| found.resource.kind == kind)
        .ok_or_else(unknown)
}

/// The kind that somebody has typed: `po`, `deployments`, `deployment.apps`.
pub async fn find_named(client: &Client, written: &str) -> Result<Found, VerbError> {
    let lower = written.to_lowercase();
    let (name, group) = lower.split_once('.').unwrap_or((&lower, ""));
    let fits = |found: &Found, names: &[String]| {
        names.iter().any(|one| one == name) && (group.is_empty() || found.resource.group == group)
    };
    let first = ask(client, "/api/v1").await?;
    if let Some((found, _)) = kinds(&first).into_iter().find(|(found, names)| fits(found, names)) {
        return Ok(found);
    }
    let groups = ask(client, "/apis").await?;
    let versions = groups["groups"].as_array().into_iter().flatten();
    let paths: Vec<String> = versions
        .filter_map(|group| Some(format!("/apis/{}", group["preferredVersion"]["groupVersion"].as_str()?)))
        .collect();
    // One group may be away with its server; the others answer all the same.
    for list in join_all(paths.iter().map(|path| ask(client, path))).await.into_iter().flatten() {
        if let Some((found, _)) = kinds(&list).into_iter().find(|(found, names)| fits(found, names)) {
            return Ok(found);
        }
    }
    Err(VerbError::new(404, format!("no kind of objects is called '{written}' here"))
        .hint("for example pods, deployments, jobs, nodes, events, slicepolicies, sliceplans"))
}

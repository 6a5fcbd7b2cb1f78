//! What a spec asks for, in a line.

use carve_cluster_tests::counted;
use serde_json::Value;
use std::collections::BTreeSet;

/// The objects of a spec, in words.
pub(crate) fn asked(objects: &[Value]) -> String {
    let used = used_claims(objects);
    let (mut parts, mut claims): (Vec<String>, Vec<String>) = Default::default();
    for object in objects {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if object["kind"].as_str().is_some_and(|kind| kind.starts_with("ResourceClaim"))
            && !used.contains(name)
        {
            continue;
        }
        let text = match object["kind"].as_str() {
            Some("ResourceClaim") => {
                claims.push(format!("one claim: {}", devices(&object["spec"]["devices"])));
                continue;
            }
            Some("ResourceClaimTemplate") => {
                claims.push(format!("each a claim: {}", devices(&object["spec"]["spec"]["devices"])));
                continue;
            }
            Some("Pod") => pods("1 pod", &object["spec"]),
            Some("Deployment") => {
                pods(&format!("{} pods", object["spec"]["replicas"]), &object["spec"]["template"]["spec"])
            }
            Some("Job") => pods(
                &format!("{} pod at a time", object["spec"]["parallelism"]),
                &object["spec"]["template"]["spec"],
            ),
            _ => continue,
        };
        parts.push(text);
    }
    let pods = counted(parts, ", ").replace(" × 1 pod", " pods");
    if claims.is_empty() { pods } else { format!("{pods}; {}", counted(claims, "; ")) }
}

/// Names of the claims and templates that pods refer to.
fn used_claims(objects: &[Value]) -> BTreeSet<String> {
    let specs = objects.iter().flat_map(|object| [&object["spec"], &object["spec"]["template"]["spec"]]);
    let claims = specs.flat_map(|spec| spec["resourceClaims"].as_array().into_iter().flatten());
    let names = claims.flat_map(|claim| [&claim["resourceClaimName"], &claim["resourceClaimTemplateName"]]);
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

fn pods(number: &str, spec: &Value) -> String {
    let containers = spec["containers"].as_array().map_or(0, Vec::len);
    let limits: Vec<String> = spec["containers"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|container| container["resources"]["limits"].as_object().cloned().unwrap_or_default())
        .filter(|(name, _)| name.contains('/'))
        .map(|(name, amount)| format!("`{name}: {amount}`"))
        .collect();
    let of = if containers > 1 { format!(" of {containers} containers") } else { String::new() };
    let asking = if limits.is_empty() { String::new() } else { format!(" asking for {}", limits.join(", ")) };
    format!("{number}{of}{asking}")
}

fn devices(devices: &Value) -> String {
    let requests = devices["requests"].as_array().into_iter().flatten().map(request).collect();
    let mut text = counted(requests, " + ");
    for constraint in devices["constraints"].as_array().into_iter().flatten() {
        for (kind, words) in [("matchAttribute", "same"), ("distinctAttribute", "different")] {
            if let Some(name) = constraint[kind].as_str() {
                let attribute = name.rsplit('/').next().unwrap_or(name);
                text.push_str(&format!(", {words} {attribute}"));
            }
        }
    }
    for config in devices["config"].as_array().into_iter().flatten() {
        let parameters = &config["opaque"]["parameters"];
        let sharing = &parameters["sharing"];
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let interval = word(&sharing["timeSlicingConfig"]["interval"]);
        let said = [word(&parameters["kind"]), word(&sharing["strategy"]), interval];
        let said: Vec<String> = said.into_iter().filter(|part| !part.is_empty()).collect();
        text.push_str(&format!(", config {}", said.join(" ")));
    }
    text
}

fn request(request: &Value) -> String {
    if let Some(alternatives) = request["firstAvailable"].as_array() {
        let each: Vec<String> = alternatives.iter().map(exact).collect();
        return format!("first of: {}", each.join(", or "));
    }
    exact(&request["exactly"])
}

fn exact(exactly: &Value) -> String {
    let mut text = exactly["deviceClassName"].as_str().unwrap_or("?").to_owned();
    match (exactly["allocationMode"].as_str(), exactly["count"].as_u64()) {
        (Some("All"), _) => text.insert_str(0, "all of "),
        (_, Some(count)) if count > 1 => text.insert_str(0, &format!("{count} of ")),
        _ => {}
    }
    if exactly["adminAccess"] == true {
        text.push_str(" as administrator");
    }
    for selector in exactly["selectors"].as_array().into_iter().flatten() {
        let words = selector["cel"]["expression"].as_str().unwrap_or("?");
        let mut words = words.split_whitespace().collect::<Vec<_>>().join(" ").replace('"', "'");
        for kind in ["attributes", "capacity"] {
            words = words.replace(&format!("device.{kind}['gpu.nvidia.com']."), "");
        }
        text.push_str(&format!(" where `{words}`"));
    }
    if let Some(capacity) = exactly["capacity"]["requests"].as_object() {
        let bare = |amount: &Value| amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
        let each: Vec<String> =
            capacity.iter().map(|(name, amount)| format!("{name} {}", bare(amount))).collect();
        text.push_str(&format!(" with {}", each.join(", ")));
    }
    text
}

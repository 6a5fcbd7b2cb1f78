//! Selectors in CEL for what claims want of a device. Every device of ours has the attributes that are asked for here, so none needs to
//! ask first whether they are there; whoever is not of our driver was sorted out by the class.

use crate::fleet::plain;
use carve_formats::workloads::Names;
use carve_gpu_model::{GpuUuid, ProfileName};

/// A text as CEL writes it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn attribute(driver: &str, name: &str) -> String {
    format!("device.attributes[{}].{name}", quoted(driver))
}

fn list(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// Devices of a MIG profile.
pub(crate) fn profile(driver: &str, profile: &ProfileName) -> String {
    format!("{} == {}", attribute(driver, "profile"), quoted(&profile.to_string()))
}

/// Devices of these products.
pub(crate) fn products<'a>(driver: &str, names: impl Iterator<Item = &'a str>) -> String {
    // Attributes hold 64 letters; longer names are published cut.
    let names = names.map(|name| quoted(&name.chars().take(64).collect::<String>()));
    format!("{} in [{}]", attribute(driver, "productName"), list(names))
}

/// Devices whose product has one of the wanted parts in its name and none of the others.
pub(crate) fn models(driver: &str, models: &Names<String>) -> Option<String> {
    let name = format!("{}.lowerAscii().replace(' ', '-')", attribute(driver, "productName"));
    let any = |parts: &[String]| {
        let each = parts.iter().map(|part| format!("{name}.contains({})", quoted(&plain(part))));
        each.collect::<Vec<_>>().join(" || ")
    };
    both(models, any(&models.wanted), any(&models.unwanted))
}

/// Devices of GPUs by their ids.
pub(crate) fn uuids(driver: &str, uuids: &Names<GpuUuid>) -> Option<String> {
    let any = |ids: &[GpuUuid]| {
        let ids = ids.iter().map(|uuid| quoted(&uuid.0));
        format!("{} in [{}]", attribute(driver, "uuid"), list(ids))
    };
    both(uuids, any(&uuids.wanted), any(&uuids.unwanted))
}

fn both<T>(names: &Names<T>, wanted: String, unwanted: String) -> Option<String> {
    match (names.wanted.is_empty(), names.unwanted.is_empty()) {
        (true, true) => None,
        (false, true) => Some(wanted),
        (true, false) => Some(format!("!({unwanted})")),
        (false, false) => Some(format!("({wanted}) && !({unwanted})")),
    }
}

#[cfg(test)]
mod tests {
    use super::{models, products, uuids};
    use carve_formats::workloads::Names;
    use carve_gpu_model::GpuUuid;

    #[test]
    fn names_become_expressions() {
        let named = Names { wanted: vec!["A100 SXM".to_owned()], unwanted: vec!["40GB".to_owned()] };
        assert_eq!(
            models("gpu.carve.dev", &named).as_deref(),
            Some(
                "(device.attributes['gpu.carve.dev'].productName.lowerAscii().replace(' ', '-').contains('a100-sxm')) && \
                 !(device.attributes['gpu.carve.dev'].productName.lowerAscii().replace(' ', '-').contains('40gb'))"
            )
        );
        let ids = Names { wanted: Vec::new(), unwanted: vec![GpuUuid("GPU-1".to_owned())] };
        let said = uuids("gpu.carve.dev", &ids);
        assert_eq!(said.as_deref(), Some("!(device.attributes['gpu.carve.dev'].uuid in ['GPU-1'])"));
        assert_eq!(models("gpu.carve.dev", &Names::default()), None);
    }

    #[test]
    fn no_name_ends_its_quotes() {
        let said = products("d", ["x' || true || '\\"].into_iter());
        assert_eq!(said, r"device.attributes['d'].productName in ['x\' || true || \'\\']");
    }
}

//! The DeviceClasses that claims name: one for each way of using a GPU, and one for a MIG profile where somebody wants it.
//!
//! A selector that asks for an attribute which a device lacks ends the search for all devices of the cluster, so each asks first whether
//! it is there.

use carve_gpu_model::ProfileName;
use serde_json::{Value, json};
use thiserror::Error;

/// A DeviceClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceClass {
    /// What claims call it.
    pub name: String,
    /// Which devices it has, in the language of selectors.
    pub selector: String,
    /// The resource whose pods are served by it without a claim of their own.
    pub extended_resource: Option<String>,
}

/// Why a text is not the name of a driver.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is not the name of a driver; one is at most 63 characters of lower-case letters, digits, '-' and '.', such as gpu.carve.dev"
)]
pub struct DriverNameError(pub String);

impl DeviceClass {
    /// The object that the API server takes.
    pub fn manifest(&self) -> Value {
        let mut spec = json!({"selectors": [{"cel": {"expression": self.selector}}]});
        if let Some(resource) = &self.extended_resource {
            spec["extendedResourceName"] = json!(resource);
        }
        json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": self.name},
            "spec": spec,
        })
    }
}

/// The classes of a driver, and one for each of the profiles.
///
/// They are called after the driver: `gpu.nvidia.com` has `gpu.nvidia.com` and `mig.nvidia.com`, as users of NVIDIA's driver know them.
pub fn classes(driver: &str, profiles: &[ProfileName]) -> Result<Vec<DeviceClass>, DriverNameError> {
    if !is_driver_name(driver) {
        return Err(DriverNameError(driver.to_owned()));
    }
    let domain = driver.strip_prefix("gpu.").unwrap_or(driver);
    let class = |name: &str, asked: &[(&str, &str)], resource: Option<String>| DeviceClass {
        name: format!("{name}.{domain}"),
        selector: selector(driver, asked),
        extended_resource: resource,
    };
    let mut classes = vec![
        class("gpu", &[("type", "gpu")], Some("nvidia.com/gpu".to_owned())),
        class("mig", &[("type", "mig")], None),
        class("fraction", &[("type", "fraction"), ("sharing", "limiter")], None),
        class("mps", &[("type", "fraction"), ("sharing", "mps")], None),
        class("timeslicing", &[("type", "fraction"), ("sharing", "timeslice")], None),
        class("mig-fraction", &[("type", "mig-fraction"), ("sharing", "limiter")], None),
    ];
    let mut profiles = profiles.to_vec();
    profiles.sort();
    profiles.dedup();
    classes.extend(profiles.iter().map(|profile| {
        // `1g.10gb+me` is the resource `mig-1g.10gb.me` of the device plugin.
        let form = profile.resource_form();
        let asked = [("type", "mig"), ("profile", &profile.to_string())];
        class(&format!("mig-{}", form.replace('.', "-")), &asked, Some(format!("nvidia.com/mig-{form}")))
    }));
    Ok(classes)
}

/// Devices of a driver whose attributes say this; a line for each, for people.
fn selector(driver: &str, asked: &[(&str, &str)]) -> String {
    let attributes = asked.iter().map(|(name, value)| {
        let attribute = format!("device.attributes['{driver}'].{name}");
        format!("\n&& has({attribute}) && {attribute} == '{value}'")
    });
    format!("device.driver == '{driver}'{}", attributes.collect::<String>())
}

/// Names of drivers are those of hosts, and short.
fn is_driver_name(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |label: &str| {
        let ends = [label.bytes().next(), label.bytes().last()];
        ends.iter().all(|end| end.is_some_and(letter))
            && label.bytes().all(|byte| letter(byte) || byte == b'-')
    };
    text.len() <= 63 && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::classes;

    #[test]
    fn classes_are_called_after_the_driver() {
        let names = |driver: &str| -> Vec<String> {
            classes(driver, &[]).expect(driver).into_iter().map(|class| class.name).collect()
        };
        assert_eq!(
            names("gpu.nvidia.com"),
            [
                "gpu.nvidia.com",
                "mig.nvidia.com",
                "fraction.nvidia.com",
                "mps.nvidia.com",
                "timeslicing.nvidia.com",
                "mig-fraction.nvidia.com"
            ]
        );
        assert_eq!(names("carve.example")[..2], ["gpu.carve.example", "mig.carve.example"]);
    }

    #[test]
    fn a_profile_has_the_resource_of_the_device_plugin() {
        let profiles = ["1g.10gb+me", "1g.10gb", "1g.10gb"].map(|name| name.parse().expect("a profile"));
        let classes = classes("gpu.carve.dev", &profiles).expect("classes");
        let of_profiles: Vec<(&str, Option<&str>)> = classes[6..]
            .iter()
            .map(|class| (class.name.as_str(), class.extended_resource.as_deref()))
            .collect();
        assert_eq!(
            of_profiles,
            [
                ("mig-1g-10gb.carve.dev", Some("nvidia.com/mig-1g.10gb")),
                ("mig-1g-10gb-me.carve.dev", Some("nvidia.com/mig-1g.10gb.me")),
            ]
        );
        assert_eq!(
            classes[6].selector,
            "device.driver == 'gpu.carve.dev'\n\
             && has(device.attributes['gpu.carve.dev'].type) && device.attributes['gpu.carve.dev'].type == 'mig'\n\
             && has(device.attributes['gpu.carve.dev'].profile) && device.attributes['gpu.carve.dev'].profile == '1g.10gb'"
        );
    }

    #[test]
    fn what_could_end_a_selector_is_no_driver() {
        for driver in
            ["", "gpu.", ".dev", "GPU.carve.dev", "a'b", "gpu..dev", "-a.b", "a-.b", &"a".repeat(64)]
        {
            assert!(classes(driver, &[]).is_err(), "{driver}");
        }
    }
}

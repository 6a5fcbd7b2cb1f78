//! The Container Device Interface: the file from which a container runtime learns what a named device is.
//!
//! Field names and their order are those of version 0.5.0, as NVIDIA's plugin writes it; a recorded file read and
//! written again is the same file. Fields of later versions are not kept: carve reads such files in tests alone.

use crate::kubernetes_yaml::write_json_string;
use serde_json::{Map, Value};
use thiserror::Error;

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spec {
    /// The version of the interface that a runtime must know: `0.5.0`.
    pub cdi_version: String,
    /// `vendor/class`; with a device's name behind `=` it is what a request says.
    pub kind: String,
    /// The devices.
    pub devices: Vec<Device>,
    /// What a container gets with any of them.
    pub container_edits: ContainerEdits,
}

/// One device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    /// Its name within the kind.
    pub name: String,
    /// What a container gets with it.
    pub container_edits: ContainerEdits,
}

/// What is put into a container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerEdits {
    /// Environment, `NAME=value`.
    pub env: Vec<String>,
    /// Device nodes, with the right to use them.
    pub device_nodes: Vec<DeviceNode>,
    /// Programs of the host that the runtime runs.
    pub hooks: Vec<Hook>,
    /// Files and folders of the host.
    pub mounts: Vec<Mount>,
}

/// A device node in a container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceNode {
    /// Where the container sees it.
    pub path: String,
    /// Where it is on the host; empty where that is the same.
    pub host_path: String,
    /// Its major number. Zero leaves both numbers to the runtime, which looks at the host's node.
    pub major: u32,
    /// Its minor number.
    pub minor: u32,
    /// Permission bits of the node in the container; zero leaves them to the runtime.
    pub file_mode: u32,
    /// What the container may do with it: `r`, `w` and `m` for making such a node.
    pub permissions: String,
}

/// A file or folder of the host in a container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mount {
    /// Where it is on the host.
    pub host_path: String,
    /// Where the container sees it.
    pub container_path: String,
    /// Options of the mount.
    pub options: Vec<String>,
}

/// A program of the host that the runtime runs while it makes a container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hook {
    /// When: `createContainer` is after the mounts and before the container's root becomes the root.
    pub hook_name: String,
    /// The program on the host.
    pub path: String,
    /// Its arguments, the name it is called by first.
    pub args: Vec<String>,
    /// Its environment.
    pub env: Vec<String>,
}

/// Why a text is no CDI file.
#[derive(Debug, Error)]
pub enum SpecError {
    /// No JSON.
    #[error("a CDI spec is JSON, and this is none")]
    NotJson(#[source] serde_json::Error),
    /// A field is missing or is something else.
    #[error("CDI spec: {field} is not {expected}; write the file anew")]
    Field {
        /// The field.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
    },
}

impl Spec {
    /// The file as one line of JSON; fields that are empty or zero are left out.
    pub fn to_json(&self) -> String {
        let mut out = Object::new();
        out.text("cdiVersion", &self.cdi_version);
        out.text("kind", &self.kind);
        out.objects("devices", &self.devices, |device| {
            let mut out = Object::new();
            out.text("name", &device.name);
            out.raw("containerEdits", &edits_to_json(&device.container_edits));
            out.finish()
        });
        out.raw("containerEdits", &edits_to_json(&self.container_edits));
        out.finish()
    }

    /// Reads a file.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let value: Value = serde_json::from_str(text).map_err(SpecError::NotJson)?;
        let spec = object(&value, "the whole")?;
        Ok(Spec {
            cdi_version: text_of(spec, "cdiVersion")?,
            kind: text_of(spec, "kind")?,
            devices: list_of(spec, "devices", |device| {
                let device = object(device, "devices[]")?;
                Ok(Device { name: text_of(device, "name")?, container_edits: edits_of(device)? })
            })?,
            container_edits: edits_of(spec)?,
        })
    }
}

fn edits_to_json(edits: &ContainerEdits) -> String {
    let mut out = Object::new();
    out.texts("env", &edits.env);
    out.objects("deviceNodes", &edits.device_nodes, |node| {
        let mut out = Object::new();
        out.text("path", &node.path);
        out.text("hostPath", &node.host_path);
        out.number("major", node.major);
        out.number("minor", node.minor);
        out.number("fileMode", node.file_mode);
        out.text("permissions", &node.permissions);
        out.finish()
    });
    out.objects("hooks", &edits.hooks, |hook| {
        let mut out = Object::new();
        out.text("hookName", &hook.hook_name);
        out.text("path", &hook.path);
        out.texts("args", &hook.args);
        out.texts("env", &hook.env);
        out.finish()
    });
    out.objects("mounts", &edits.mounts, |mount| {
        let mut out = Object::new();
        out.text("hostPath", &mount.host_path);
        out.text("containerPath", &mount.container_path);
        out.texts("options", &mount.options);
        out.finish()
    });
    out.finish()
}

/// A JSON object that keeps the order of its fields and leaves out what is empty.
struct Object(String);

impl Object {
    fn new() -> Self {
        Object("{".to_owned())
    }

    fn raw(&mut self, name: &str, json: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        write_json_string(name, &mut self.0);
        self.0.push(':');
        self.0.push_str(json);
    }

    fn text(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.raw(name, &quoted(text));
        }
    }

    fn number(&mut self, name: &str, number: u32) {
        if number != 0 {
            self.raw(name, &number.to_string());
        }
    }

    fn texts(&mut self, name: &str, texts: &[String]) {
        self.objects(name, texts, |text| quoted(text));
    }

    fn objects<T>(&mut self, name: &str, items: &[T], write: impl Fn(&T) -> String) {
        if !items.is_empty() {
            self.raw(name, &format!("[{}]", items.iter().map(write).collect::<Vec<_>>().join(",")));
        }
    }

    fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    write_json_string(text, &mut out);
    out
}

type Fields = Map<String, Value>;

fn edits_of(parent: &Fields) -> Result<ContainerEdits, SpecError> {
    let Some(edits) = parent.get("containerEdits") else { return Ok(ContainerEdits::default()) };
    let edits = object(edits, "containerEdits")?;
    Ok(ContainerEdits {
        env: texts_of(edits, "env")?,
        device_nodes: list_of(edits, "deviceNodes", |node| {
            let node = object(node, "deviceNodes[]")?;
            Ok(DeviceNode {
                path: text_of(node, "path")?,
                host_path: text_of(node, "hostPath")?,
                major: number_of(node, "major")?,
                minor: number_of(node, "minor")?,
                file_mode: number_of(node, "fileMode")?,
                permissions: text_of(node, "permissions")?,
            })
        })?,
        hooks: list_of(edits, "hooks", |hook| {
            let hook = object(hook, "hooks[]")?;
            Ok(Hook {
                hook_name: text_of(hook, "hookName")?,
                path: text_of(hook, "path")?,
                args: texts_of(hook, "args")?,
                env: texts_of(hook, "env")?,
            })
        })?,
        mounts: list_of(edits, "mounts", |mount| {
            let mount = object(mount, "mounts[]")?;
            Ok(Mount {
                host_path: text_of(mount, "hostPath")?,
                container_path: text_of(mount, "containerPath")?,
                options: texts_of(mount, "options")?,
            })
        })?,
    })
}

fn object<'a>(value: &'a Value, field: &'static str) -> Result<&'a Fields, SpecError> {
    value.as_object().ok_or(SpecError::Field { field, expected: "an object" })
}

fn text_of(fields: &Fields, field: &'static str) -> Result<String, SpecError> {
    let Some(value) = fields.get(field) else { return Ok(String::new()) };
    value.as_str().map(str::to_owned).ok_or(SpecError::Field { field, expected: "a text" })
}

fn number_of(fields: &Fields, field: &'static str) -> Result<u32, SpecError> {
    let Some(value) = fields.get(field) else { return Ok(0) };
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.ok_or(SpecError::Field { field, expected: "a whole number" })
}

fn list_of<T>(
    fields: &Fields,
    field: &'static str,
    read: impl Fn(&Value) -> Result<T, SpecError>,
) -> Result<Vec<T>, SpecError> {
    let Some(value) = fields.get(field) else { return Ok(Vec::new()) };
    value.as_array().ok_or(SpecError::Field { field, expected: "a list" })?.iter().map(read).collect()
}

fn texts_of(fields: &Fields, field: &'static str) -> Result<Vec<String>, SpecError> {
    list_of(fields, field, |value| {
        value.as_str().map(str::to_owned).ok_or(SpecError::Field { field, expected: "a list of texts" })
    })
}

#[cfg(test)]
mod tests {
    use super::{Spec, SpecError};
    use carve_test_support::fixture_text;

    #[test]
    fn recorded_files_come_back_byte_for_byte() {
        for name in ["", "mig/"] {
            let path = format!("device-plugin/golden-cdi/{name}k8s.device-plugin.nvidia.com-gpu.json");
            let Some(text) = fixture_text(&path) else { return };
            let spec = Spec::parse(&text).unwrap();
            assert_eq!(spec.to_json(), text.trim_end(), "{path}");
            assert!(!spec.devices.is_empty() && !spec.container_edits.mounts.is_empty());
        }
    }

    #[test]
    fn what_is_no_spec_is_refused_with_the_field() {
        assert!(matches!(Spec::parse("{"), Err(SpecError::NotJson(_))));
        for (text, field) in [
            ("[]", "the whole"),
            (r#"{"kind":7}"#, "kind"),
            (r#"{"devices":{}}"#, "devices"),
            (r#"{"containerEdits":{"env":[1]}}"#, "env"),
            (r#"{"containerEdits":{"deviceNodes":[{"minor":-1}]}}"#, "minor"),
        ] {
            match Spec::parse(text) {
                Err(SpecError::Field { field: found, .. }) => assert_eq!(found, field),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn odd_texts_survive() {
        let mut spec = Spec { kind: "a\"b\\c\n\u{1}é/x".to_owned(), ..Spec::default() };
        spec.container_edits.env.push("A=</>&".to_owned());
        assert_eq!(Spec::parse(&spec.to_json()).unwrap(), spec);
    }
}

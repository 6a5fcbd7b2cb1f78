//! The checkpoint file of mig-parted, version v1: the MIG state of a node with placements, as JSON.

use crate::diagnostic::{Finding, Parsed, Place, Report};
use crate::go_json;
use crate::kubernetes_yaml::{self, Node, SyntaxError, write_json_string};
use crate::suggestion::did_you_mean;

/// The MIG state of all GPUs of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MigCheckpoint {
    /// The GPUs.
    pub devices: Vec<DeviceState>,
}

/// The MIG state of one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceState {
    /// UUID of the GPU.
    pub uuid: String,
    /// NVML's number for the mode: 0 disabled, 1 enabled.
    pub mig_mode: i64,
    /// Its GPU instances.
    pub gpu_instances: Vec<GpuInstanceState>,
}

/// A GPU instance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpuInstanceState {
    /// NVML's profile *index* (not the id that nvidia-smi prints).
    pub profile_id: i64,
    /// First memory slot.
    pub start: u32,
    /// Memory slots.
    pub size: u32,
    /// Its compute instances.
    pub compute_instances: Vec<ComputeInstanceState>,
}

/// A compute instance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ComputeInstanceState {
    /// NVML's compute profile index.
    pub profile_id: i64,
    /// NVML's engine profile.
    pub eng_profile_id: i64,
}

impl MigCheckpoint {
    /// Reads the text of a checkpoint, which must be JSON.
    pub fn parse(text: &str) -> Parsed<Self> {
        let mut report = Report::default();
        if let Err(error) = serde_json::from_str::<serde_json::Value>(text) {
            report.syntax(not_json(&error));
            return report.finish(None);
        }
        match kubernetes_yaml::parse(text) {
            Ok(node) => Self::from_node(&node),
            Err(error) => {
                report.syntax(error);
                report.finish(None)
            }
        }
    }

    /// Reads a document that was parsed already.
    pub fn from_node(node: &Node) -> Parsed<Self> {
        let mut report = Report::default();
        let mut checkpoint = MigCheckpoint::default();
        read_state(&Place::root(node), &mut checkpoint, &mut report);
        report.finish(Some(checkpoint))
    }

    /// The file as mig-parted writes it: one line, `null` for empty lists.
    pub fn to_json(&self) -> String {
        let devices = list(&self.devices, |device| {
            let mut uuid = String::new();
            write_json_string(&device.uuid, &mut uuid);
            let instances = list(&device.gpu_instances, |instance| {
                let compute = list(&instance.compute_instances, |compute| {
                    format!(
                        "{{\"ProfileID\":{},\"EngProfileID\":{}}}",
                        compute.profile_id, compute.eng_profile_id
                    )
                });
                format!(
                    "{{\"ProfileID\":{},\"Placement\":{{\"Start\":{},\"Size\":{}}},\"ComputeInstances\":{compute}}}",
                    instance.profile_id, instance.start, instance.size
                )
            });
            format!("{{\"UUID\":{uuid},\"MigMode\":{},\"GpuInstances\":{instances}}}", device.mig_mode)
        });
        format!("{{\"Version\":\"v1\",\"MigState\":{{\"Devices\":{devices}}}}}")
    }
}

/// Go writes a list that was never filled as `null`.
fn list<T>(items: &[T], write: impl Fn(&T) -> String) -> String {
    if items.is_empty() {
        return "null".to_owned();
    }
    format!("[{}]", items.iter().map(write).collect::<Vec<_>>().join(","))
}

fn not_json(error: &serde_json::Error) -> SyntaxError {
    SyntaxError {
        at: kubernetes_yaml::Position { line: error.line().max(1), column: error.column().max(1) },
        problem: format!("a checkpoint is JSON, and this is none: {error}"),
        upstream: None,
    }
}

/// Reads a Go struct: each entry goes to its field, unknown ones are reported.
fn read_struct(
    place: &Place<'_>,
    go_type: &str,
    fields: &'static [&'static str],
    report: &mut Report,
    mut assign: impl FnMut(&str, &Place<'_>, &mut Report),
) {
    let Some(object) = go_json::object(place, &format!("Go value of type {go_type}"), report) else { return };
    for (field, key, value) in object.struct_entries(fields) {
        match field {
            Some(field) => assign(field, &value, report),
            None => Finding::warning(place, format!("'{}' is not read here, so it has no effect", key.text))
                .at(key.at)
                .maybe_hint(did_you_mean(&key.text, fields.iter().copied()))
                .report(report),
        }
    }
}

fn read_list<T: Default>(
    place: &Place<'_>,
    go_type: &str,
    report: &mut Report,
    mut read: impl FnMut(&Place<'_>, &mut T, &mut Report),
) -> Vec<T> {
    let items = go_json::items(place, &format!("Go value of type []{go_type}"), report).unwrap_or_default();
    let values = items.iter().map(|item| {
        let mut value = T::default();
        read(item, &mut value, report);
        value
    });
    values.collect()
}

fn read_int(place: &Place<'_>, report: &mut Report) -> i64 {
    go_json::integer(place, "Go value of type int", report).unwrap_or_default()
}

fn read_slot(place: &Place<'_>, report: &mut Report) -> u32 {
    let number = go_json::integer(place, "Go value of type uint32", report).unwrap_or_default();
    u32::try_from(number).unwrap_or_else(|_| {
        Finding::error(place, format!("{number} is no memory slot"))
            .upstream(format!("json: cannot unmarshal number {number} into Go value of type uint32"))
            .report(report);
        0
    })
}

fn read_state(place: &Place<'_>, checkpoint: &mut MigCheckpoint, report: &mut Report) {
    let mut version = String::new();
    read_struct(place, "v1.State", &["Version", "MigState"], report, |field, value, report| match field {
        "Version" => version = go_json::text(value, "Go value of type string", report).unwrap_or_default(),
        _ => read_struct(value, "types.MigState", &["Devices"], report, |_, value, report| {
            checkpoint.devices = read_list(value, "types.DeviceState", report, read_device);
        }),
    });
    if version != "v1" && !place.is_null() {
        Finding::warning(
            place,
            format!("mig-parted does not look at the version, which is '{version}' here"),
        )
        .hint("\"Version\":\"v1\" is the only one there is")
        .report(report);
    }
}

fn read_device(place: &Place<'_>, device: &mut DeviceState, report: &mut Report) {
    let fields = &["UUID", "MigMode", "GpuInstances"];
    read_struct(place, "types.DeviceState", fields, report, |field, value, report| match field {
        "UUID" => device.uuid = go_json::text(value, "Go value of type string", report).unwrap_or_default(),
        "MigMode" => device.mig_mode = read_int(value, report),
        _ => device.gpu_instances = read_list(value, "types.GpuInstanceState", report, read_gpu_instance),
    });
    if !(0..=1).contains(&device.mig_mode) {
        Finding::warning(
            place,
            format!("MIG mode {} is neither 0 (disabled) nor 1 (enabled)", device.mig_mode),
        )
        .report(report);
    }
}

fn read_gpu_instance(place: &Place<'_>, instance: &mut GpuInstanceState, report: &mut Report) {
    let fields = &["ProfileID", "Placement", "ComputeInstances"];
    read_struct(place, "types.GpuInstanceState", fields, report, |field, value, report| match field {
        "ProfileID" => instance.profile_id = read_int(value, report),
        "Placement" => {
            read_struct(
                value,
                "nvml.GpuInstancePlacement",
                &["Start", "Size"],
                report,
                |field, value, report| {
                    let slot = read_slot(value, report);
                    if field == "Start" {
                        instance.start = slot;
                    } else {
                        instance.size = slot;
                    }
                },
            );
        }
        _ => {
            instance.compute_instances = read_list(
                value,
                "types.ComputeInstanceState",
                report,
                |place, compute: &mut ComputeInstanceState, report| {
                    let fields = &["ProfileID", "EngProfileID"];
                    read_struct(
                        place,
                        "types.ComputeInstanceState",
                        fields,
                        report,
                        |field, value, report| {
                            let number = read_int(value, report);
                            if field == "ProfileID" {
                                compute.profile_id = number;
                            } else {
                                compute.eng_profile_id = number;
                            }
                        },
                    );
                },
            );
        }
    });
}

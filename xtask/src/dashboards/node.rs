//! A node: each GPU and instance, and who is on it.

use super::panel::{BAD, GOOD, Panel, WATCH};
use super::{Dashboard, Variable};

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        name: "node",
        title: "carve / Node",
        says: "One node: its GPUs and MIG instances, and what each container was promised and used.",
        variables: vec![Variable {
            name: "node",
            label: "Node",
            values: "carve_agent_ready, node",
            many: false,
        }],
        rows: vec![("State", state()), ("Devices", devices()), ("Who is on it", who()), ("Doors", doors())],
    }
}

fn state() -> Vec<Panel> {
    vec![
        Panel::stat("Agent ready", "1 while the agent does its work; GET /readyz says why not.")
            .asks("min(carve_agent_ready{node=\"$node\"})", "")
            .colours(BAD, &[(1.0, GOOD)]),
        Panel::stat("Configuration", "1 while the newest configuration is in force.")
            .asks("min(carve_agent_config_ok{node=\"$node\"})", "")
            .colours(BAD, &[(1.0, GOOD)]),
        Panel::stat("GPUs", "GPUs of this node.").asks("count(carve_agent_gpu_healthy{node=\"$node\"})", ""),
        Panel::stat("Withheld", "GPUs that are sick.")
            .asks("count(carve_agent_gpu_healthy{node=\"$node\"} == 0) or vector(0)", "")
            .colours(GOOD, &[(1.0, BAD)]),
        Panel::stat("Slices given out", "Parts that containers hold.")
            .asks("count(carve_container_memory_used_bytes{node=\"$node\"}) or vector(0)", ""),
        Panel::stat("Escaped", "Processes that no share counts.")
            .asks("sum(carve_agent_escaped_processes{node=\"$node\"}) or vector(0)", "")
            .colours(GOOD, &[(1.0, BAD)]),
    ]
}

const DEVICE: &str = "GPU {{gpu}} {{profile}} {{gpu_instance}}";

fn devices() -> Vec<Panel> {
    vec![
        Panel::lines("Busy", "Part of the time in which each GPU or MIG instance did anything.")
            .asks("sum by (gpu, gpu_instance, profile) (rate(carve_gpu_busy_seconds_total{node=\"$node\"}[$__rate_interval]))", DEVICE)
            .unit("percentunit")
            .most(1.0),
        Panel::lines("Memory in use", "Of what each GPU or MIG instance has.")
            .asks("sum by (gpu, gpu_instance, profile) (carve_gpu_memory_used_bytes{node=\"$node\"}) / sum by (gpu, gpu_instance, profile) (carve_gpu_memory_bytes{node=\"$node\"})", DEVICE)
            .unit("percentunit")
            .most(1.0),
        Panel::lines("Temperature", "As the driver tells it.")
            .asks("max by (gpu) (DCGM_FI_DEV_GPU_TEMP{Hostname=\"$node\"})", "GPU {{gpu}}")
            .unit("celsius"),
        Panel::lines("Power", "As the driver tells it.")
            .asks("max by (gpu) (DCGM_FI_DEV_POWER_USAGE{Hostname=\"$node\"})", "GPU {{gpu}}")
            .unit("watt"),
        Panel::lines("Clock of the multiprocessors", "A GPU that is hot or short of power slows down.")
            .asks("max by (gpu) (DCGM_FI_DEV_SM_CLOCK{Hostname=\"$node\"})", "GPU {{gpu}}")
            .unit("rotmhz"),
        Panel::lines("Last XID", "The last error that the driver reported of each GPU; 0 while there was none.")
            .asks("max by (gpu) (DCGM_FI_DEV_XID_ERRORS{Hostname=\"$node\"})", "GPU {{gpu}}"),
    ]
}

fn who() -> Vec<Panel> {
    vec![
        Panel::table(
            "Promised and measured",
            "Attribution says how use is known: measured by the driver, counted by the limiter, or divided by quota or evenly, which is an estimate of who and never of how much.",
        )
        .asks("sum by (namespace, pod, container, uuid, mechanism, attribution) (rate(carve_container_gpu_seconds_total{node=\"$node\"}[$__rate_interval]))", "")
        .asks("sum by (namespace, pod, container, uuid, mechanism) (carve_container_gpu_promised_ratio{node=\"$node\"})", "")
        .asks("sum by (namespace, pod, container, uuid, mechanism) (carve_container_memory_used_bytes{node=\"$node\"}) / 1048576", "")
        .asks("sum by (namespace, pod, container, uuid, mechanism) (carve_container_memory_limit_bytes{node=\"$node\"}) / 1048576", "")
        .column("Value #A", "used of its time")
        .column("Value #B", "promised of its time")
        .column("Value #C", "memory in MiB")
        .column("Value #D", "of at most MiB"),
        Panel::stacked("GPU time", "GPU seconds a second that each container used; nobody's is what no container is known for.")
            .asks("sum by (namespace, pod, container) (rate(carve_container_gpu_seconds_total{node=\"$node\"}[$__rate_interval]))", "{{namespace}}/{{pod}} {{container}}")
            .asks("sum(rate(carve_gpu_unattributed_seconds_total{node=\"$node\"}[$__rate_interval]))", "nobody's"),
        Panel::stacked("Memory", "That the driver shows for each container's processes.")
            .asks("sum by (namespace, pod, container) (carve_container_memory_used_bytes{node=\"$node\"})", "{{namespace}}/{{pod}} {{container}}")
            .asks("sum(carve_gpu_memory_unattributed_bytes{node=\"$node\"})", "nobody's")
            .unit("bytes"),
        Panel::lines("Kept from working", "Threads of each container that wait for their turn.")
            .asks("sum by (namespace, pod, container) (rate(carve_container_throttled_seconds_total{node=\"$node\"}[$__rate_interval]))", "{{namespace}}/{{pod}} {{container}}"),
        Panel::lines("Memory refused", "How often each container was refused memory because of its limit.")
            .asks("sum by (namespace, pod, container) (increase(carve_container_denied_allocations_total{node=\"$node\"}[$__rate_interval]))", "{{namespace}}/{{pod}} {{container}}"),
    ]
}

fn doors() -> Vec<Panel> {
    vec![
        Panel::lines("Claims", "Claims that kubelet asked to prepare or to take back.").asks(
            "sum by (verb, outcome) (increase(carve_agent_claims_total{node=\"$node\"}[$__rate_interval]))",
            "{{verb}}: {{outcome}}",
        ),
        Panel::bars("MPS daemons", "1 where containers may be sent to the daemon of a part.")
            .asks("max by (uuid) (carve_agent_mps_ready{node=\"$node\"})", "{{uuid}}")
            .colours(BAD, &[(1.0, GOOD)])
            .most(1.0),
        Panel::lines("Claims that are ready", "Claims that containers may be started with.")
            .asks("sum(carve_agent_claims_ready{node=\"$node\"})", "claims"),
        Panel::lines("MIG cut anew", "Layouts that this agent was asked for.")
            .asks(
                "sum by (result) (increase(carve_agent_mig_applies_total{node=\"$node\"}[$__rate_interval]))",
                "{{result}}",
            )
            .colours(WATCH, &[]),
    ]
}

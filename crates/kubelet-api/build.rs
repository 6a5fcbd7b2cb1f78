//! Writes the gRPC plumbing of each service; the messages themselves are written by hand in `src/`.

use tonic_build::manual::{Builder, Method, MethodBuilder, Service};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let registration = Service::builder()
        .name("Registration")
        .package("pluginregistration")
        .method(call("GetInfo", "get_info", "InfoRequest", "PluginInfo"))
        .method(call(
            "NotifyRegistrationStatus",
            "notify_registration_status",
            "RegistrationStatus",
            "RegistrationStatusResponse",
        ))
        .build();
    // The messages of all versions are the same, so they are written once.
    let dra = |version: &str| {
        Service::builder()
            .name("DRAPlugin")
            .package(format!("k8s.io.kubelet.pkg.apis.dra.{version}"))
            .method(call(
                "NodePrepareResources",
                "node_prepare_resources",
                "NodePrepareResourcesRequest",
                "NodePrepareResourcesResponse",
            ))
            .method(call(
                "NodeUnprepareResources",
                "node_unprepare_resources",
                "NodeUnprepareResourcesRequest",
                "NodeUnprepareResourcesResponse",
            ))
            .build()
    };
    let dra_health = |version: &str| {
        let watch = stream(
            "NodeWatchResources",
            "node_watch_resources",
            "NodeWatchResourcesRequest",
            "NodeWatchResourcesResponse",
        );
        Service::builder().name("DRAResourceHealth").package(version).method(watch).build()
    };
    let plugin_registration = Service::builder()
        .name("Registration")
        .package("v1beta1")
        .method(call("Register", "register", "RegisterRequest", "Empty"))
        .build();
    let device_plugin = Service::builder()
        .name("DevicePlugin")
        .package("v1beta1")
        .method(call("GetDevicePluginOptions", "get_device_plugin_options", "Empty", "DevicePluginOptions"))
        .method(stream("ListAndWatch", "list_and_watch", "Empty", "ListAndWatchResponse"))
        .method(call(
            "GetPreferredAllocation",
            "get_preferred_allocation",
            "PreferredAllocationRequest",
            "PreferredAllocationResponse",
        ))
        .method(call("Allocate", "allocate", "AllocateRequest", "AllocateResponse"))
        .method(call(
            "PreStartContainer",
            "pre_start_container",
            "PreStartContainerRequest",
            "PreStartContainerResponse",
        ))
        .build();
    let pod_resources = Service::builder()
        .name("PodResourcesLister")
        .package("v1")
        .method(call("List", "list", "ListPodResourcesRequest", "ListPodResourcesResponse"))
        .build();
    let services = [
        registration,
        dra("v1"),
        dra("v1beta1"),
        dra_health("v1"),
        dra_health("v1alpha1"),
        plugin_registration,
        device_plugin,
        pod_resources,
    ];
    // Clients get a channel from `dial`, which knows unix sockets.
    Builder::new().build_transport(false).compile(&services);
}

/// One question with one answer; the messages live two modules above the generated code.
fn call(wire_name: &str, name: &str, question: &str, answer: &str) -> Method {
    method(wire_name, name, question, answer).build()
}

/// One question with answers that go on coming.
fn stream(wire_name: &str, name: &str, question: &str, answer: &str) -> Method {
    method(wire_name, name, question, answer).server_streaming().build()
}

fn method(wire_name: &str, name: &str, question: &str, answer: &str) -> MethodBuilder {
    Method::builder()
        .name(name)
        .route_name(wire_name)
        .input_type(format!("super::super::{question}"))
        .output_type(format!("super::super::{answer}"))
        .codec_path("tonic_prost::ProstCodec")
}

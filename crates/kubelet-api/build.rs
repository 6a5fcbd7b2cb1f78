//! Writes the gRPC plumbing of each service; the messages themselves are written by hand in `src/`.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
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
    let dra = Service::builder()
        .name("DRAPlugin")
        .package("k8s.io.kubelet.pkg.apis.dra.v1")
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
        .build();
    // Kubelet dials; a client of ours only exists in tests, which bring their own channel.
    Builder::new().build_transport(false).compile(&[registration, dra]);
}

/// One question with one answer; the messages live two modules above the generated code.
fn call(wire_name: &str, name: &str, question: &str, answer: &str) -> Method {
    Method::builder()
        .name(name)
        .route_name(wire_name)
        .input_type(format!("super::super::{question}"))
        .output_type(format!("super::super::{answer}"))
        .codec_path("tonic_prost::ProstCodec")
        .build()
}

//! The numbers of fields as they stand in Kubernetes' protocol files, byte by byte.

use carve_kubelet_api::dra::{Claim, Device, NodePrepareResourceResponse};
use carve_kubelet_api::dra_health::{
    DeviceHealth, DeviceIdentifier, HealthStatus, NodeWatchResourcesResponse,
};
use prost::Message;

#[test]
fn health_has_the_numbers_that_kubelet_reads() {
    let device = DeviceIdentifier { pool_name: "p".to_owned(), device_name: "d".to_owned() };
    let health = DeviceHealth {
        device: Some(device),
        health: HealthStatus::Unhealthy.into(),
        last_updated_time: 3,
        health_check_timeout_seconds: 4,
        message: "m".to_owned(),
    };
    let list = NodeWatchResourcesResponse { devices: vec![health] };
    let expected = [
        &[0x0a, 17][..],
        &[0x0a, 6, 0x0a, 1, b'p', 0x12, 1, b'd'],
        &[0x10, 2],
        &[0x18, 3],
        &[0x20, 4],
        &[0x2a, 1, b'm'],
    ];
    assert_eq!(list.encode_to_vec(), expected.concat());
    assert_eq!([HealthStatus::Unknown, HealthStatus::Healthy].map(i32::from), [0, 1]);
}

#[test]
fn claims_and_devices_have_the_numbers_that_kubelet_reads() {
    let claim = Claim { namespace: "n".to_owned(), uid: "u".to_owned(), name: "c".to_owned() };
    assert_eq!(claim.encode_to_vec(), b"\x0a\x01n\x12\x01u\x1a\x01c");
    let device = Device {
        request_names: vec!["r".to_owned()],
        pool_name: "p".to_owned(),
        device_name: "d".to_owned(),
        cdi_device_ids: vec!["c".to_owned()],
        share_id: Some("s".to_owned()),
    };
    let answer = NodePrepareResourceResponse { devices: vec![device], error: "e".to_owned() };
    assert_eq!(answer.encode_to_vec(), b"\x0a\x0f\x0a\x01r\x12\x01p\x1a\x01d\x22\x01c\x2a\x01s\x12\x01e");
}

//! Registration as kubelet does it, byte by byte: its `:authority` is one that no Rust client would send.

use carve_kubelet_api::registration::{
    DRA_PLUGIN, InfoRequest, PluginInfo, Registration, RegistrationServer, RegistrationStatus,
    RegistrationStatusResponse,
};
use carve_kubelet_api::serve::Socket;
use prost::Message;
use std::future::pending;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::transport::server::Router;
use tonic::{Request, Response, Status, async_trait};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

struct Plugin;

fn info() -> PluginInfo {
    PluginInfo {
        r#type: DRA_PLUGIN.to_owned(),
        name: "a.example.com".to_owned(),
        endpoint: "/a/dra.sock".to_owned(),
        supported_versions: vec!["v1.DRAPlugin".to_owned()],
    }
}

#[async_trait]
impl Registration for Plugin {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(info()))
    }

    async fn notify_registration_status(
        &self,
        _: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}

fn router() -> Router {
    Server::builder().add_service(RegistrationServer::new(Plugin))
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    [&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream], payload].concat()
}

/// A call without a message, its headers given.
fn call(stream: u8, fields: &[u8]) -> Vec<u8> {
    [frame(HEADERS, END_HEADERS, stream, fields), frame(DATA, END_STREAM, stream, &[0; 5])].concat()
}

/// A connection that starts with a call of GetInfo.
fn first_call() -> Vec<u8> {
    let mut fields = vec![0x83, 0x86];
    for (name, value) in [
        (&[0x44][..], "/pluginregistration.Registration/GetInfo"),
        (&[0x41], "%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2Fa.example.com-reg.sock"),
        (&[0x5f], "application/grpc"),
        (&[0x40, 2, b't', b'e'], "trailers"),
    ] {
        fields.extend_from_slice(name);
        fields.push(value.len() as u8);
        fields.extend_from_slice(value.as_bytes());
    }
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, &[])[..], &call(1, &fields)].concat()
}

/// The same call again: it refers to the headers of the first, which the server must have kept in order.
fn second_call() -> Vec<u8> {
    call(3, &[0x83, 0x86, 0xc1, 0xc0, 0xbf, 0xbe])
}

/// What a stream was answered: kind and payload of its frames, up to the last.
async fn answer(connection: &mut UnixStream, stream: u8) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    loop {
        let mut head = [0; 9];
        connection.read_exact(&mut head).await.expect("a frame");
        let mut payload = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
        connection.read_exact(&mut payload).await.expect("its payload");
        if head[8] == stream {
            frames.push((head[3], payload));
            if head[3] == RST_STREAM || (head[3] == HEADERS && head[4] & END_STREAM != 0) {
                return frames;
            }
        }
    }
}

fn kinds(frames: &[(u8, Vec<u8>)]) -> Vec<u8> {
    frames.iter().map(|(kind, _)| *kind).collect()
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(180), future).await.expect("in time")
}

#[tokio::test]
async fn kubelet_is_answered_and_so_is_its_second_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a-reg.sock");
    let socket = Socket::bind(&path).expect("a socket");
    tokio::spawn(socket.serve(router(), pending()));
    let mut connection = UnixStream::connect(&path).await.expect("a connection");
    for (stream, call) in [(1, first_call()), (3, second_call())] {
        connection.write_all(&call).await.expect("written");
        let frames = in_time(answer(&mut connection, stream)).await;
        assert_eq!(kinds(&frames), [HEADERS, DATA, HEADERS], "stream {stream}");
        assert_eq!(PluginInfo::decode(&frames[1].1[5..]), Ok(info()));
    }
}

/// Once this fails, the filter has had its day.
#[tokio::test]
async fn without_the_filter_the_server_resets_the_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a-reg.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    tokio::spawn(router().serve_with_incoming(UnixListenerStream::new(listener)));
    let mut connection = UnixStream::connect(&path).await.expect("a connection");
    connection.write_all(&first_call()).await.expect("written");
    let frames = in_time(answer(&mut connection, 1)).await;
    assert_eq!(kinds(&frames), [RST_STREAM]);
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_ours_goes_when_we_stop() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("dra.sock");
    drop(Socket::bind(&path).expect("a socket"));
    assert!(path.exists(), "left behind, as by a process that was killed");
    let socket = Socket::bind(&path).expect("a socket in its place");
    in_time(socket.serve(router(), async {})).await.expect("served");
    assert!(!path.exists());
}

#[tokio::test]
async fn the_socket_of_a_successor_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("dra.sock");
    let socket = Socket::bind(&path).expect("a socket");
    let _successor = Socket::bind(&path).expect("a socket in its place");
    in_time(socket.serve(router(), async {})).await.expect("served");
    assert!(path.exists());
}

#[tokio::test]
async fn a_file_that_is_no_socket_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("dra.sock");
    std::fs::write(&path, "dear diary").expect("a file");
    let error = Socket::bind(&path).expect_err("in the way").to_string();
    assert!(error.ends_with("dra.sock is in the way and is not a socket; it is left alone"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).expect("still there"), "dear diary");
}

//! Routes Services to their pods, as kube-proxy would: every cluster address is taken on the loopback interface and its
//! connections are passed on to a ready endpoint.
//!
//! Only TCP, and only as fast as tests need; it works without any packet filter in the kernel.

use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Services and endpoint slices as last told, by namespace and name.
#[derive(Debug, Default)]
struct Known {
    services: BTreeMap<(String, String), Value>,
    slices: BTreeMap<(String, String), Value>,
}

type Shared = Arc<Mutex<Known>>;

fn lock(known: &Shared) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Routes until the lab ends.
pub fn services(folder: &Path) -> Result<()> {
    let known = Shared::default();
    for kind in ["services", "endpointslices"] {
        let (known, kubeconfig) = (Arc::clone(&known), folder.join("admin.kubeconfig"));
        std::thread::spawn(move || {
            loop {
                if let Err(error) = watch(&kubeconfig, kind, &known) {
                    eprintln!("watching {kind}: {error:#}");
                }
                // The API server is away; what is known stays in force until it is back.
                std::thread::sleep(Duration::from_millis(300));
            }
        });
    }
    let mut served = BTreeSet::new();
    loop {
        for address in addresses(&lock(&known)) {
            if served.insert(address) {
                serve(address, &known)?;
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Follows one kind of object until the connection ends.
fn watch(kubeconfig: &Path, kind: &str, known: &Shared) -> Result<()> {
    let mut child = Command::new("kubectl")
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .args(["get", kind, "--all-namespaces", "--watch", "--output-watch-events", "-o", "json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("can not start kubectl")?;
    let stdout = child.stdout.take().context("kubectl has no stdout")?;
    // A new watch tells everything anew.
    let mut first = true;
    for event in serde_json::Deserializer::from_reader(io::BufReader::new(stdout)).into_iter::<Value>() {
        let event = event?;
        let mut known = lock(known);
        let objects = if kind == "services" { &mut known.services } else { &mut known.slices };
        if std::mem::take(&mut first) {
            objects.clear();
        }
        let object = &event["object"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
        if event["type"] == "DELETED" {
            objects.remove(&name);
        } else {
            objects.insert(name, object.clone());
        }
    }
    child.wait()?;
    Ok(())
}

/// Every address that should be served. The API server's own is served by itself.
fn addresses(known: &Known) -> BTreeSet<SocketAddrV4> {
    let own: Ipv4Addr = [10, 96, 0, 1].into();
    let each = known.services.values().flat_map(|service| {
        let ip = service["spec"]["clusterIP"].as_str().and_then(|text| text.parse::<Ipv4Addr>().ok());
        let ports = service["spec"]["ports"].as_array().cloned().unwrap_or_default();
        let tcp = ports.into_iter().filter(|port| port["protocol"] == "TCP");
        tcp.filter_map(move |port| Some(SocketAddrV4::new(ip?, u16::try_from(port["port"].as_u64()?).ok()?)))
    });
    each.filter(|address| *address.ip() != own).collect()
}

/// The ready endpoints behind an address.
fn endpoints(known: &Known, address: SocketAddrV4) -> Vec<SocketAddr> {
    let ip = address.ip().to_string();
    let mut found = Vec::new();
    for ((namespace, name), service) in &known.services {
        if service["spec"]["clusterIP"] != ip.as_str() {
            continue;
        }
        let ports = service["spec"]["ports"].as_array().into_iter().flatten();
        for port in ports.filter(|port| port["port"] == address.port()) {
            let slices = known.slices.iter().filter(|((place, _), slice)| {
                place == namespace
                    && slice["metadata"]["labels"]["kubernetes.io/service-name"] == name.as_str()
            });
            for (_, slice) in slices {
                found.extend(targets(slice, &port["name"]));
            }
        }
    }
    found
}

/// Ready addresses of a slice with the number its port of this name has.
fn targets(slice: &Value, name: &Value) -> Vec<SocketAddr> {
    // A port without a name is null in a service and empty in a slice.
    let same = |port: &&Value| port["name"].as_str().unwrap_or_default() == name.as_str().unwrap_or_default();
    let number = slice["ports"].as_array().and_then(|ports| ports.iter().find(same)?["port"].as_u64());
    let ready = slice["endpoints"].as_array().into_iter().flatten();
    let ready = ready.filter(|endpoint| endpoint["conditions"]["ready"] != false);
    let addresses = ready.flat_map(|endpoint| endpoint["addresses"].as_array().cloned().unwrap_or_default());
    addresses.filter_map(|address| format!("{}:{}", address.as_str()?, number?).parse().ok()).collect()
}

/// Takes an address and passes its connections on.
fn serve(address: SocketAddrV4, known: &Shared) -> Result<()> {
    // Several ports of one service share the address, so it may be there already.
    let _ = Command::new("ip").args(["addr", "add", &format!("{}/32", address.ip()), "dev", "lo"]).output();
    let listener = TcpListener::bind(address).with_context(|| format!("can not serve {address}"))?;
    let known = Arc::clone(known);
    let turn = AtomicUsize::new(0);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let endpoints = endpoints(&lock(&known), address);
            // Without an endpoint the connection is dropped, as a packet filter would refuse it.
            let turn = turn.fetch_add(1, Ordering::Relaxed);
            if let Some(endpoint) = endpoints.get(turn % endpoints.len().max(1)).copied() {
                std::thread::spawn(move || pass_on(&client, endpoint));
            }
        }
    });
    Ok(())
}

fn pass_on(client: &TcpStream, endpoint: SocketAddr) {
    let Ok(server) = TcpStream::connect_timeout(&endpoint, Duration::from_secs(2)) else { return };
    std::thread::scope(|scope| {
        scope.spawn(|| copy(client, &server));
        copy(&server, client);
    });
}

/// Passes bytes on until one side ends, and tells the other.
fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::{Known, addresses, endpoints};
    use serde_json::json;

    #[test]
    fn an_address_leads_to_the_ready_endpoints_of_its_port() {
        let mut known = Known::default();
        let name = |text: &str| ("ns".to_owned(), text.to_owned());
        let ports = json!([{"name": "web", "port": 443, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]);
        known.services.insert(name("hook"), json!({"spec": {"clusterIP": "10.96.5.5", "ports": ports}}));
        known.slices.insert(
            name("hook-1"),
            json!({
                "metadata": {"labels": {"kubernetes.io/service-name": "hook"}},
                "ports": [{"name": "web", "port": 8443}],
                "endpoints": [
                    {"addresses": ["10.244.0.7"], "conditions": {"ready": true}},
                    {"addresses": ["10.244.0.8"], "conditions": {"ready": false}},
                ],
            }),
        );
        let served: Vec<_> = addresses(&known).into_iter().collect();
        assert_eq!(served, ["10.96.5.5:443".parse().unwrap()]);
        assert_eq!(endpoints(&known, served[0]), ["10.244.0.7:8443".parse().unwrap()]);
        assert!(endpoints(&known, "10.96.5.5:80".parse().unwrap()).is_empty());
    }
}

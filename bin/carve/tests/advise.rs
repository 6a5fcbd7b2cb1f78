//! `carve advise` against a Prometheus that answers as one does.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};

const DAY: i64 = 86_400;

/// Serves answers until the program has asked for everything; what was asked comes back.
fn prometheus(
    answer: fn(&str, i64) -> String,
    questions: usize,
) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let serving = std::thread::spawn(move || {
        (0..questions).map(|_| serve(listener.accept().expect("a connection").0, answer)).collect()
    });
    (address, serving)
}

fn serve(mut stream: TcpStream, answer: fn(&str, i64) -> String) -> String {
    let mut lines = BufReader::new(stream.try_clone().expect("a stream")).lines();
    let request = lines.next().expect("a request").expect("text");
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    let query = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let field = |name: &str| {
        let start = query.split_once(&format!("{name}="))?.1;
        Some(start.split('&').next()?.to_owned())
    };
    let end: i64 = field("end").and_then(|end| end.parse().ok()).expect("an end");
    let asked = field("query").expect("a query");
    let body = answer(&asked, end);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length:";
    write!(stream, "{head} {}\r\n\r\n{body}", body.len()).expect("an answer");
    asked
}

/// Our own series for four pods: a quarter of the GPU's time, and 3,000 MiB.
fn quarters(query: &str, end: i64) -> String {
    let pods = ["embeddings", "reranker", "sentiment", "translate"];
    let value: fn(i64) -> String = match query {
        q if q.contains("carve_container_gpu_seconds_total") => |second| format!("{}.5", second / 4),
        q if q.contains("carve_container_memory_used_bytes") => |_| (3000_u64 << 20).to_string(),
        _ => return r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#.to_owned(),
    };
    // A name is kept by a plain query and lost by a function.
    let name =
        if query.contains("over_time") { "" } else { r#""__name__":"carve_container_gpu_seconds_total","# };
    let points: Vec<String> =
        (0..=24).map(|hour| format!(r#"[{},"{}"]"#, end - DAY + hour * 3600, value(hour * 3600))).collect();
    let one = |pod: &&str| {
        format!(
            r#"{{"metric":{{{name}"namespace":"serving","pod":"{pod}-6f7d8c9b5-x2k4q","container":"server","uuid":"GPU-1","attribution":"measured"}},"values":[{}]}}"#,
            points.join(",")
        )
    };
    let result: Vec<String> = pods.iter().map(one).collect();
    format!(r#"{{"status":"success","data":{{"resultType":"matrix","result":[{}]}}}}"#, result.join(","))
}

fn refuses(_query: &str, _end: i64) -> String {
    r#"{"status":"error","errorType":"bad_data","error":"exceeded maximum resolution"}"#.to_owned()
}

fn advise(prometheus: &str) -> Output {
    let cluster = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sessions/advise/quarter-cluster.json");
    Command::new(env!("CARGO_BIN_EXE_carve"))
        .args([
            "advise",
            "--since",
            "1d",
            "--prometheus",
            prometheus,
            "--window",
            "23h",
            "-o",
            "json",
            "--cluster",
        ])
        .arg(cluster)
        .output()
        .expect("the program runs")
}

#[test]
fn our_own_series_are_asked_for_and_preferred() {
    let (address, serving) = prometheus(quarters, 6);
    let output = advise(&address);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let asked = serving.join().expect("all questions");
    assert!(asked[0].starts_with("carve_container_gpu_seconds_total"), "{asked:?}");
    assert!(asked.iter().any(|query| query.starts_with("max_over_time")), "{asked:?}");
    let advice: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(advice["fleet"]["money"]["savedCents"], 162_432);
    assert_eq!(advice["workloads"][0]["observed"]["evidence"]["own"], "measured");
    assert_eq!(advice["workloads"][0]["observed"]["p95"], 250_000);
    assert_eq!(advice["workloads"][0]["advised"]["words"], "MPS 25%, 3300 MiB");
}

#[test]
fn what_prometheus_refuses_is_told() {
    let (address, serving) = prometheus(refuses, 1);
    let output = advise(&address);
    serving.join().expect("one question");
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("Prometheus refused the query: exceeded maximum resolution"), "{told}");
}

/// An agent on which four pods use a quarter of their GPUs, from when it was started.
fn agent() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        let start = std::time::Instant::now();
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut lines = BufReader::new(stream.try_clone().expect("a stream")).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let mut body = "# TYPE carve_container_gpu_seconds counter\n".to_owned();
            for pod in ["embeddings", "reranker", "sentiment", "translate"] {
                let labels = format!(
                    r#"namespace="serving",pod="{pod}-6f7d8c9b5-x2k4q",container="server",uuid="GPU-{pod}""#
                );
                let busy = 100.0 + start.elapsed().as_secs_f64() / 4.0;
                body += &format!(
                    "carve_container_gpu_seconds_total{{{labels},attribution=\"measured\"}} {busy}\n"
                );
                body += &format!("carve_container_memory_used_bytes{{{labels}}} {}\n", 3000_u64 << 20);
            }
            body += "# EOF\n";
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length:";
            let _ = write!(stream, "{head} {}\r\n\r\n{body}", body.len());
        }
    });
    address
}

#[test]
fn agents_are_watched_where_nothing_was_recorded() {
    let cluster = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sessions/advise/quarter-cluster.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_carve"));
    command.args([
        "advise",
        "--live",
        "9s",
        "--window",
        "7s",
        "-o",
        "json",
        "--agent",
        &agent(),
        "--cluster",
    ]);
    let output = command.arg(cluster).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let advice: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let observed = &advice["workloads"][0]["observed"];
    assert_eq!(observed["evidence"]["own"], "measured", "{advice:#}");
    let p95 = observed["p95"].as_i64().expect("a figure");
    assert!((240_000..=260_000).contains(&p95), "{p95}: a quarter, but for how late answers came");
    assert_eq!(observed["peakMemory"], 3000, "{advice:#}");
    // Five looks are seen and not enough to advise by.
    assert_eq!(advice["workloads"][0]["reasons"][0]["rule"], "watched-too-short", "{advice:#}");
}

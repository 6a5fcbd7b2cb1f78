//! A scheduler extender that lets every node through and says so, to see that a scheduler asks one.
//!
//! Argument: port.

use anyhow::Result;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

async fn filter(Json(arguments): Json<Value>) -> Json<Value> {
    eprintln!("filter {}", arguments["Pod"]["metadata"]["name"]);
    Json(
        json!({"NodeNames": arguments["NodeNames"], "Nodes": arguments["Nodes"], "FailedNodes": {}, "Error": ""}),
    )
}

async fn prioritize(Json(arguments): Json<Value>) -> Json<Value> {
    eprintln!("prioritize {}", arguments["Pod"]["metadata"]["name"]);
    let names = arguments["NodeNames"].as_array().cloned().unwrap_or_default();
    Json(Value::Array(names.into_iter().map(|name| json!({"Host": name, "Score": 1})).collect()))
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let port: u16 = std::env::args().nth(1).unwrap_or_default().parse()?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let routes = Router::new().route("/filter", post(filter)).route("/prioritize", post(prioritize));
    eprintln!("serving on port {port}");
    axum::serve(listener, routes).await?;
    Ok(())
}

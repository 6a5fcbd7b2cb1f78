//! The verbs, at objects that are kept in this process.

use carve_object_api::ObjectApi;
use carve_object_store::{Settings, Store};
use carve_object_verbs::{
    Outcome, Wanted, apply, delete, documents, find_named, get, label, list, scale, table,
};
use kube::Client;
use std::collections::BTreeMap;

const WEB: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: team}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: i}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: team}
";

fn client() -> Client {
    ObjectApi::new(Store::in_memory(Settings::default())).client()
}

async fn applied(client: &Client, text: &str) -> Vec<(String, Outcome)> {
    let applied = apply(client, &documents(text).expect("objects"), "default", false).await.expect("applied");
    applied.into_iter().map(|one| (one.object, one.outcome)).collect()
}

#[tokio::test]
async fn objects_are_applied_got_scaled_and_deleted() {
    let client = client();
    let names =
        |outcome| vec![("namespace/team".to_owned(), outcome), ("deployment.apps/web".to_owned(), outcome)];
    assert_eq!(applied(&client, WEB).await, names(Outcome::Created));
    assert_eq!(applied(&client, WEB).await, names(Outcome::Unchanged));
    let changed = applied(&client, &WEB.replace("replicas: 2", "replicas: 3")).await;
    assert_eq!(changed[1].1, Outcome::Configured);
    let found = find_named(&client, "deploy").await.expect("a kind");
    assert_eq!(found, find_named(&client, "deployments.apps").await.expect("a kind"));
    scale(&client, &found, "team", "web", 7).await.expect("scaled");
    assert_eq!(get(&client, &found, "team", "web").await.expect("it is there")["spec"]["replicas"], 7);
    let wanted = Wanted { namespace: Some("team".to_owned()), ..Wanted::default() };
    let shown = table(&client, &found, &wanted).await.expect("a table");
    assert_eq!((shown.rows[0].name.as_str(), shown.rows[0].cells[1].as_str()), ("web", "0/7"));
    let labels = BTreeMap::from([("a".to_owned(), Some("b".to_owned())), ("c".to_owned(), None)]);
    label(&client, &found, "team", "web", &labels).await.expect("labelled");
    assert_eq!(list(&client, &found, None, Some("a=b")).await.expect("a list").len(), 1);
    delete(&client, &found, "team", "web", None).await.expect("deleted");
    assert_eq!(get(&client, &found, "team", "web").await.expect_err("it is gone").code, 404);
    let spaces = find_named(&client, "namespaces").await.expect("a kind");
    assert_eq!(scale(&client, &spaces, "", "team", 1).await.expect_err("no number").code, 400);
}

#[tokio::test]
async fn where_one_is_refused_nothing_is_written() {
    let client = client();
    applied(&client, "{apiVersion: v1, kind: Namespace, metadata: {name: default}}").await;
    let good = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good}\n---\n";
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec:";
    for (bad, words) in [
        (format!("{pod} {{containers: []}}\n"), "spec.containers"),
        (format!("{pod} {{contaners: [], containers: [{{name: a, image: i}}]}}\n"), "unknown field"),
        ("apiVersion: v1\nkind: Nonsense\nmetadata: {name: bad}\n".to_owned(), "no kind \"Nonsense\""),
        ("apiVersion: v1\nkind: ConfigMap\n".to_owned(), "metadata.name is missing"),
    ] {
        let text = format!("{good}{bad}");
        let refused = apply(&client, &documents(&text).expect("objects"), "default", false).await;
        let refused = refused.expect_err(&bad);
        assert!(refused.message.contains(words), "{words}: {}", refused.message);
        let maps = find_named(&client, "cm").await.expect("a kind");
        assert_eq!(list(&client, &maps, None, None).await.expect("a list").len(), 0, "{bad}");
    }
}

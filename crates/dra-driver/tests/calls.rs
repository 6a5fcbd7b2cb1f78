//! What kubelet is answered, whatever the driver does with a claim.

mod served;

use carve_dra_driver::Pace;
use carve_kubelet_api::dra::{NodePrepareResourcesRequest, NodeUnprepareResourcesRequest, v1beta1};
use served::{DRIVER, Node, PACE, claim, device, in_time, prepare, unprepare, until};
use std::time::Duration;

/// Long enough for a busy machine, short enough to wait for.
const SOON: Pace = Pace { answer: Duration::from_millis(300), ..PACE };

#[tokio::test]
async fn every_claim_is_answered_for_and_a_bad_one_harms_no_other() {
    let node = Node::new();
    let _instance = node.serve(PACE, None);
    let mut client = node.client().await;
    let names = ["good", "bad", "forgotten", "wordless", "fine"];
    let asked: Vec<_> = names.iter().map(|name| claim(name, 1)).collect();
    let answer = prepare(&mut client, asked.clone()).await;
    assert_eq!(answer.len(), names.len(), "{answer:?}");
    for good in ["good-1", "fine-1"] {
        assert_eq!(answer[good], Ok(vec![device(good)]));
    }
    assert_eq!(answer["bad-1"], Err("no such device".to_owned()));
    let forgotten = "the driver did not say whether the claim was prepared; kubelet asks again";
    assert_eq!(answer["forgotten-1"], Err(forgotten.to_owned()));
    assert_eq!(
        answer["wordless-1"],
        Err("the driver failed and did not say why; its log may tell".to_owned())
    );

    let answer = unprepare(&mut client, asked).await;
    assert_eq!(answer.len(), names.len(), "{answer:?}");
    assert_eq!([&answer["good-1"], &answer["fine-1"], &answer["bad-1"]], ["", "", "no such device"]);
    assert_eq!(answer["forgotten-1"], forgotten.replace("prepared", "unprepared"));
    assert!(!answer["wordless-1"].is_empty(), "kubelet would take it for success");
}

#[tokio::test]
async fn an_older_kubelet_is_answered_the_same() {
    let node = Node::new();
    let instance = node.serve(PACE, None);
    let mut client = v1beta1::DRAPluginClient::new(node.kubelet.latest(DRIVER).await);
    let claims = vec![claim("good", 1), claim("bad", 1)];
    let answer =
        in_time(client.node_prepare_resources(NodePrepareResourcesRequest { claims: claims.clone() }));
    let answer = answer.await.expect("an answer").into_inner().claims;
    assert_eq!(answer["good-1"].devices, [device("good-1")]);
    assert_eq!(answer["bad-1"].error, "no such device");
    let answer = in_time(client.node_unprepare_resources(NodeUnprepareResourcesRequest { claims }));
    let answer = answer.await.expect("an answer").into_inner().claims;
    assert_eq!([&answer["good-1"].error, &answer["bad-1"].error], ["", "no such device"]);
    assert_eq!(
        instance.driver.log().iter().filter(|line| line.contains("good")).collect::<Vec<_>>(),
        ["prepare begins good-1", "prepare ends good-1", "unprepare begins good-1", "unprepare ends good-1"]
    );
}

#[tokio::test]
async fn a_panic_fails_the_claim_that_caused_it_and_nothing_else() {
    let node = Node::new();
    let _instance = node.serve(PACE, None);
    let mut client = node.client().await;
    for round in 0..3 {
        let asked = vec![claim("before", round), claim("panics", round), claim("zero", round)];
        let answer = prepare(&mut client, asked).await;
        let [before, panics, zero] =
            ["before", "panics", "zero"].map(|name| &answer[&format!("{name}-{round}")]);
        assert_eq!([before, zero].map(Result::is_ok), [true, true], "{answer:?}");
        let error = panics.as_ref().expect_err("a panic");
        assert!(
            error.contains(&format!("the table has no row panics-{round}; kubelet asks again")),
            "{error}"
        );
    }
    let answer = unprepare(&mut client, vec![claim("panics", 1)]).await;
    assert!(
        answer["panics-1"].starts_with("the driver failed while the claim was being unprepared"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_slow_claim_is_answered_in_time_and_its_work_goes_on() {
    let node = Node::new();
    let instance = node.serve(SOON, None);
    let mut client = node.client().await;
    let late = Err("still being prepared after 0 s; kubelet asks again".to_owned());
    let answer = prepare(&mut client, vec![claim("slow", 1)]).await;
    assert_eq!(answer["slow-1"], late);
    // Asked again beside another claim: that one is done, and the driver is not asked twice for the first.
    let answer = prepare(&mut client, vec![claim("slow", 1), claim("good", 1)]).await;
    assert_eq!((&answer["slow-1"], answer["good-1"].is_ok()), (&late, true));
    let begun = instance.driver.log().iter().filter(|line| *line == "prepare begins slow-1").count();
    assert_eq!(begun, 1, "{:?}", instance.driver.log());
    // Nobody waits for it any more, and it is finished all the same.
    instance.driver.gate.add_permits(1);
    until("the work is done", || instance.driver.log().contains(&"prepare ends slow-1".to_owned())).await;
}

#[tokio::test]
async fn whoever_asks_again_is_answered_by_the_work_under_way() {
    let node = Node::new();
    let instance = node.serve(PACE, None);
    let (mut first, mut second) = (node.client().await, node.client().await);
    let begun = |uid: &str| {
        let line = format!("prepare begins {uid}");
        instance.driver.log().iter().filter(|known| **known == line).count()
    };
    let first = tokio::spawn(async move { prepare(&mut first, vec![claim("slow", 1)]).await });
    until("the work has begun", || begun("slow-1") == 1).await;
    // As a kubelet that has given up the first.
    first.abort();
    // The other claim shows when the second call has arrived.
    let again = vec![claim("slow", 1), claim("slow", 2)];
    let second = tokio::spawn(async move { prepare(&mut second, again).await });
    until("the second call has arrived", || begun("slow-2") == 1).await;
    instance.driver.gate.add_permits(2);
    let answer = second.await.expect("a task");
    for uid in ["slow-1", "slow-2"] {
        assert_eq!(answer[uid], Ok(vec![device(uid)]));
    }
    assert_eq!(begun("slow-1"), 1, "{:?}", instance.driver.log());
}

#[tokio::test]
async fn what_is_asked_last_happens_last() {
    let node = Node::new();
    let instance = node.serve(SOON, None);
    let mut client = node.client().await;
    let slow = || vec![claim("slow", 1)];
    let late = |answer: String| assert!(answer.starts_with("still being "), "{answer}");
    late(prepare(&mut client, slow()).await["slow-1"].clone().expect_err("late"));
    late(unprepare(&mut client, slow()).await["slow-1"].clone());
    // Not answered by the first: that one is undone by the second.
    late(prepare(&mut client, slow()).await["slow-1"].clone().expect_err("late"));
    assert_eq!(instance.driver.log(), ["prepare begins slow-1"]);
    instance.driver.gate.add_permits(3);
    until("all is done", || instance.driver.log().len() == 6).await;
    let one_after_the_other: Vec<String> = ["prepare", "unprepare", "prepare"]
        .iter()
        .flat_map(|verb| [format!("{verb} begins slow-1"), format!("{verb} ends slow-1")])
        .collect();
    assert_eq!(instance.driver.log(), one_after_the_other);
}

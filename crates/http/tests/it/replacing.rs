//! A site whose logs are replaced while it serves.

use lucarne_http::Limits;

use crate::support::{Server, TestLog};

#[tokio::test]
async fn logs_are_added_and_removed_while_others_are_served() {
    let (first, second) = (
        TestLog::start("first").await,
        TestLog::start("second").await,
    );
    let server = Server::start(vec![first.log.clone()], Limits::default()).await;
    let listed = async || {
        let health = server.get("/health").await.json();
        health["logs"].as_array().unwrap().len()
    };
    assert_eq!(server.get("/second/checkpoint").await.status, 404);
    let both = vec![first.log.clone(), second.log.clone()];
    server.site.replace_logs(both, Vec::new()).unwrap();
    assert_eq!(server.get("/second/checkpoint").await.status, 200);
    assert_eq!(listed().await, 2);
    assert!(server.site.render_metrics().contains("\"second\""));

    let (stays, leaves) = (vec![first.log.clone()], vec![second.log.clone()]);
    server.site.replace_logs(stays.clone(), leaves).unwrap();
    assert_eq!(server.get("/second/checkpoint").await.status, 200);
    assert_eq!(listed().await, 1);

    server.site.replace_logs(stays, Vec::new()).unwrap();
    assert_eq!(server.get("/second/checkpoint").await.status, 404);
    assert!(!server.site.render_metrics().contains("\"second\""));

    // Two logs with one prefix: nothing changes.
    let twice = vec![first.log.clone(), first.log.clone()];
    assert!(server.site.replace_logs(twice, Vec::new()).is_err());
    assert_eq!(server.get("/first/checkpoint").await.status, 200);
    assert_eq!(listed().await, 1);
}

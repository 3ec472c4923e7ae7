//! Tests of the specifications as far as they concern HTTP, with a real log and a real socket.
//! There is a file for each API, one for logs that cannot accept submissions, one for logs in
//! directories, and one for the rest of the site.

mod availability;
mod directory;
mod following;
mod monitoring;
mod rfc6962;
mod site;
mod submission;

use crate::support::{Server, TestLog};
use lucarne_http::Limits;

async fn demo(entries: usize) -> (TestLog, Server) {
    let test = TestLog::start("demo").await;
    test.fill(entries).await;
    test.until(|log| log.published().unwrap().size >= entries as u64)
        .await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    (test, server)
}

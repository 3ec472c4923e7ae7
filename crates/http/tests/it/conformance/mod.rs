//! The statements of the specifications that HTTP has a part in, asked of a
//! real log over a real socket: a file for each API, one for the times when a
//! log cannot take submissions, one for logs in directories, and one for what
//! stands around the logs.

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

//! Tests of features that need a log in a directory.
#![cfg(target_os = "linux")]

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use lucarne_http::Limits;
use lucarne_storage::{PosixAssets, ReadAssets};
use lucarne_testkit::eventually;

use crate::support::{Server, TestLog};

#[tokio::test]
async fn a_full_data_tile_is_sent_from_its_file_as_long_as_that_is_what_was_read() {
    let directory = tempfile::tempdir().unwrap();
    let assets = PosixAssets::create(directory.path()).unwrap();
    // The lock has the empty tree, so that nothing must be moved.
    let mut test = TestLog::start("demo")
        .await
        .moved(ReadAssets::uncached(Arc::new(assets)))
        .await;
    test.scts = 2;
    test.fill(300).await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    let (path, file) = ("/demo/tile/data/000", "tile/data/000");

    let mut client = server.connect().await;
    let whole = client.get(path).await.body;
    assert!(whole.len() > 64 << 10, "{} bytes are copied", whole.len());
    let file = directory.path().canonicalize().unwrap().join(file);
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let mut open = open.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
    assert!(open.any(|open| open == file), "it is not kept open");
    assert!(client.get(path).await.body == whole);
    // The previous response is not mistaken for the next one.
    assert_eq!(client.get("/demo/tile/0/000").await.body.len(), 8192);
    // An operator never does this. The verified bytes in memory are sent then.
    let file = std::fs::File::options().write(true).open(file).unwrap();
    file.write_all_at(b"changed", 9).unwrap();
    // The server checks the file for changes every few milliseconds.
    eventually("only what was verified is sent", async || {
        client.get(path).await.body == whole
    })
    .await;
    assert!(client.get(path).await.body == whole);
    file.set_len(20_000).unwrap();
    assert!(client.get(path).await.body == whole);
    file.set_len(0).unwrap();
    assert!(client.get(path).await.body == whole);
    let headers = [("accept-encoding", "identity")];
    let plain = server.ask("GET", path, &headers).await.body;
    assert!(plain.len() > whole.len());
    let head = server.ask("HEAD", path, &[]).await;
    assert!(head.body.is_empty());
}

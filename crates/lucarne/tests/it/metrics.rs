//! `/metrics` of a server and of a proxy, as Prometheus reads them.

use std::collections::BTreeMap;
use std::path::Path;

use lucarne_testkit::{Client, Launch, temp_dir};

use crate::common::{EVENT_TIMEOUT, LUCARNE, log, pki, ready, run, submission};

/// Metrics that every process has.
const OF_PROCESS: [&str; 8] = [
    "lucarne_build_info",
    "lucarne_log_lines_dropped_total",
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
];

/// The metrics of `docs/reference/metrics.md`, with their types.
fn documented() -> BTreeMap<String, String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    let text = std::fs::read_to_string(file).unwrap();
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let name = cells.next()?.trim_end_matches('`');
        Some((name.to_owned(), cells.next()?.to_owned()))
    };
    text.lines().filter_map(row).collect()
}

/// Scrapes a process, and compares the result with the documentation. `wanted` must be there.
pub(crate) async fn check(site: &Client, wanted: &[&str]) {
    let scrape = site.get("metrics").await.unwrap();
    let format = "text/plain; version=0.0.4; charset=utf-8";
    assert_eq!(scrape.header("content-type"), format);
    let (text, documented) = (scrape.text(), documented());
    let mut found = Vec::new();
    for line in text.lines() {
        let Some(family) = line.strip_prefix("# TYPE ") else {
            continue;
        };
        let (name, kind) = family.split_once(' ').unwrap();
        let expected = documented.get(name).map(String::as_str);
        assert_eq!(expected, Some(kind), "{name}");
        found.push(name);
    }
    for name in OF_PROCESS.iter().chain(wanted) {
        assert!(found.contains(name), "no {name} in\n{text}");
    }

    let accept = [("accept", "application/openmetrics-text; version=1.0.0")];
    let scrape = site.get_with("metrics", &accept).await.unwrap();
    let format = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(scrape.header("content-type"), format);
    assert!(scrape.text().ends_with("# EOF\n"));
}

#[test]
fn a_server_has_the_documented_metrics() {
    let log = log("period: 100");
    let mut server = log.start().unwrap();
    let site = Client::new(format!("http://{}", log.address()));
    run(async {
        ready(&log).await;
        let client = log.client();
        let chain = submission(&pki().p256);
        let added = client.post("ct/v1/add-chain", chain).await.unwrap();
        assert_eq!(added.status, 200);
        let refused = client.post("ct/v1/add-chain", "{}").await.unwrap();
        assert_eq!(refused.status, 400);
        let wanted = [
            "lucarne_http_refusals_total",
            "lucarne_http_request_duration_seconds",
            "lucarne_round_entries",
            "lucarne_submissions_total",
            "lucarne_tree_size",
        ];
        check(&site, &wanted).await;
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

#[test]
fn a_proxy_has_the_documented_metrics() {
    let home = temp_dir();
    let mut proxy = Launch::new(LUCARNE)
        .args(["proxy", "--no-ui", "--listen", "127.0.0.1:0"])
        .args(["--admin", "127.0.0.1:0"])
        .directory(home.path())
        .spawn()
        .unwrap();
    let said = proxy
        .wait_for_output("page on http://", EVENT_TIMEOUT)
        .unwrap();
    let (_, page) = said.split_once("page on ").unwrap();
    let wanted = ["lucarne_proxy_connections", "lucarne_store_entries"];
    run(check(&Client::new(page.trim()), &wanted));
    assert!(proxy.stop(EVENT_TIMEOUT).unwrap().success());
}

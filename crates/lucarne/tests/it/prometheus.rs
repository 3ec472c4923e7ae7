//! A real Prometheus scrapes a log and a proxy: each panel of the dashboards of `deploy` has data,
//! and no alert fires.

mod faults;

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use lucarne_testkit::{
    Client, Launch, LogUnderTest, Server, TempDir, check_exposition, free_port, temp_dir,
};
use serde_json::Value as Json;
use url::form_urlencoded::byte_serialize;

use crate::alerts::{ALERTS, DASHBOARDS, dashboard, queries, read};
use crate::common::{LUCARNE, all, eventually, log, pki, ready, run, submission};
use crate::proxy_observe;

/// Metrics of events and settings that this site lacks. Panels with them need no data.
const ELSEWHERE: [&str; 5] = [
    "lucarne_tls_certificate_expiry_timestamp_seconds",
    "lucarne_http_connections_cut_total",
    "lucarne_proxy_failures_total",
    "lucarne_proxy_observed_",
    "result=~\"failed|conflict\"",
];

/// A Prometheus, which stops when this value is dropped.
struct Monitor {
    client: Client,
    _server: Server,
    _home: TempDir,
}

impl Monitor {
    /// Starts a Prometheus with these rules and the entries of `scrape_configs`.
    fn start(rules: &str, scrape_configs: &str) -> Self {
        let home = temp_dir();
        let configuration = home.path().join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: [alerts.yaml]\nscrape_configs:\n{scrape_configs}"
        );
        fs::write(&configuration, text).unwrap();
        fs::write(home.path().join("alerts.yaml"), rules).unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let server = Launch::new("prometheus")
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                home.path().join("tsdb").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .start(address.parse().unwrap())
            .expect(
                "Prometheus is missing: run scripts/install-test-tools (cargo xtask test does)",
            );
        Monitor {
            client: Client::new(format!("http://{address}/")),
            _server: server,
            _home: home,
        }
    }

    /// Waits until Prometheus accepts queries.
    async fn ready(&self) {
        eventually("Prometheus is ready", async || {
            let answer = self.client.get("-/ready").await;
            answer.is_ok_and(|answer| answer.status == 200)
        })
        .await;
    }
}

/// Sends a query, and returns the samples of the response.
async fn query(prometheus: &Client, expression: &str) -> Vec<Json> {
    let expression: String = byte_serialize(expression.as_bytes()).collect();
    let path = format!("api/v1/query?query={expression}");
    let response = prometheus.get(&path).await.unwrap().json().unwrap();
    assert_eq!(response["status"], "success", "{response}");
    response["data"]["result"].as_array().unwrap().clone()
}

/// Waits until Prometheus has more than `count` samples of the series.
async fn scraped(prometheus: &Client, series: &str, count: u32) {
    let expression = format!("count_over_time({series}[10m]) > {count}");
    let what = format!("Prometheus has more than {count} samples of {series}");
    let has_samples = async || !query(prometheus, &expression).await.is_empty();
    eventually(&what, has_samples).await;
}

async fn submit_and_read(log: &LogUnderTest) {
    let client = log.client();
    let added = client
        .post("ct/v1/add-chain", submission(&pki().p256))
        .await;
    assert_eq!(added.unwrap().status, 200);
    let checkpoint = client.get("checkpoint").await;
    assert_eq!(checkpoint.unwrap().status, 200);
}

/// Starts a proxy, and sends a request for which it creates a certificate. Returns the proxy with
/// the address of its metrics.
fn proxy(directory: &std::path::Path) -> (Server, String) {
    let mut proxy = Launch::new(LUCARNE)
        .args(["proxy", "--no-ui", "--listen", "127.0.0.1:0"])
        .args(["--admin", "127.0.0.1:0", "--allow-private", "--insecure"])
        .directory(directory)
        .spawn()
        .unwrap();
    let listen = proxy_observe::address(&mut proxy, "proxy on http://");
    let admin = proxy_observe::address(&mut proxy, "page on http://");
    let ca = fs::read_to_string(directory.join("lucarne-ca/ca.pem")).unwrap();
    let server = proxy_observe::server("localhost", &[]);
    let response = proxy_observe::through(&listen, &ca, "localhost", server);
    assert!(response.ends_with("hello"), "{response}");
    (proxy, admin)
}

/// Checks metrics by this project's parser and by Prometheus' own. Returns the names of the
/// histograms.
async fn valid_metrics(address: &str) -> Vec<String> {
    let site = Client::new(format!("http://{address}/"));
    let text = site.get("metrics").await.unwrap().text();
    let home = temp_dir();
    let file = home.path().join("metrics");
    fs::write(&file, &text).unwrap();
    let checked = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::from(fs::File::open(&file).unwrap()))
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", all(&checked));
    check_exposition(&text).unwrap()
}

#[test]
fn panels_have_data_and_no_alert_fires() {
    let (log, home) = (log("period: 100"), temp_dir());
    let _server = log.start().unwrap();
    let (_proxy, metrics) = proxy(home.path());
    let targets = format!(
        "- {{job_name: lucarne, static_configs: [{{targets: [\"{}\", {metrics:?}]}}]}}\n",
        log.address(),
    );
    let monitor = Monitor::start(&read(ALERTS), &targets);
    let prometheus = &monitor.client;
    run(async {
        monitor.ready().await;
        ready(&log).await;
        submit_and_read(&log).await;
        let submissions = r#"lucarne_submissions_total{result="accepted"}"#;
        scraped(prometheus, submissions, 1).await;
        submit_and_read(&log).await;
        scraped(prometheus, submissions, 4).await;
        scraped(prometheus, "lucarne_proxy_connections", 4).await;
        for address in [log.address().to_string(), metrics.clone()] {
            for name in valid_metrics(&address).await {
                let observed = query(prometheus, &format!("sum({name}_count) > 0")).await;
                if observed.is_empty() {
                    continue;
                }
                let quantile = format!("histogram_quantile(0.5, sum by (le) ({name}_bucket))");
                let quantile = query(prometheus, &quantile).await;
                let value = quantile.first().map(|sample| &sample["value"][1]);
                let numeric = value.is_some_and(|value| *value != "NaN");
                assert!(numeric, "{name}: {quantile:?}");
            }
        }
        let created = "sum(lucarne_store_generation_seconds_count) > 0";
        assert!(!query(prometheus, created).await.is_empty());
        let mut empty = BTreeSet::new();
        for name in DASHBOARDS {
            for expression in queries(&dashboard(name)) {
                let filled = ["$instance", "$log", "$user"].iter().fold(
                    expression.replace("$__rate_interval", "1m"),
                    |filled, variable| filled.replace(variable, ".*"),
                );
                if query(prometheus, &filled).await.is_empty() {
                    empty.insert(format!("{name}: {expression}"));
                }
            }
        }
        empty.retain(|panel| !ELSEWHERE.iter().any(|metric| panel.contains(metric)));
        assert!(empty.is_empty(), "panels without data: {empty:#?}");
        let alerts = query(prometheus, r#"ALERTS{alertstate="firing"}"#).await;
        assert!(alerts.is_empty(), "{alerts:#?}");
    });
}

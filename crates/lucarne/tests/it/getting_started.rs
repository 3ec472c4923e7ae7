//! The commands of the pages `docs/getting-started*.md`, each from an empty directory.

use std::fs;
use std::net::SocketAddr;

use crate::common::{EVENT_TIMEOUT, all, assert_has, eventually, pki, run};
use crate::deploy::Recipe;
use crate::proxy_clients::site;
use lucarne_testkit::{Client, Server, free_port};

#[test]
fn a_log() {
    let port = free_port();
    let recipe = Recipe::read_as_it_is("getting-started.md")
        .with("127.0.0.1:6962", &format!("127.0.0.1:{port}"));
    let outputs = follow(&recipe, &recipe.blocks, |block| {
        let server = start(&recipe, block, port);
        wait_until_healthy(port);
        server
    });
    let [.., load, watch] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    assert_proven(load);
    assert_has(watch, " old ");
}

#[test]
fn a_load_test() {
    let port = free_port();
    let recipe = Recipe::read_as_it_is("getting-started-load-test.md")
        .with("127.0.0.1:6962", &format!("127.0.0.1:{port}"))
        .with(
            "lucarne demo",
            &format!("lucarne demo --listen 127.0.0.1:{port}"),
        )
        .with("--rate 20 --duration 5s", "--rate 5 --duration 2s")
        .with("--rate 100 --duration 10s", "--rate 10 --duration 2s")
        .with("rate: 20\n    duration: 10s", "rate: 5\n    duration: 2s")
        .with("rate: 50\n    duration: 10s", "rate: 10\n    duration: 2s");
    let mut demo = start(&recipe, &recipe.blocks[0], port);
    demo.wait_for_output("Ctrl-C", EVENT_TIMEOUT).unwrap();
    let file = |name: &str| recipe.directory.path().join(name);
    let configuration = fs::read_to_string(file("lucarne-demo/lucarne.yaml")).unwrap();
    let (_, name) = configuration.split_once("shortname: demo").unwrap();
    let half = name.lines().next().unwrap().to_owned();
    let (report, summary) = (file("report.html"), file("report.json"));
    let recipe = recipe.with("2026h2", &half);
    let outputs = follow(&recipe, &recipe.blocks[1..], |block| panic!("{block}"));
    for output in [&outputs[0], &outputs[1], outputs.last().unwrap()] {
        assert_proven(output);
    }
    assert!(report.exists() && summary.exists());
    assert!(demo.stop(EVENT_TIMEOUT).unwrap().success());
}

#[test]
fn a_proxy() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let website = runtime.block_on(site(&["http/1.1"], Default::default()));
    let (port, admin) = (free_port(), free_port());
    let proxy = format!("127.0.0.1:{port}");
    let started = format!(
        "lucarne proxy --listen {proxy} --allow-private --resolve '*.test=127.0.0.1' \
         --upstream-ca website-ca.pem"
    );
    let page = format!("https://page.test:{}/", website.port());
    let recipe = Recipe::read_as_it_is("getting-started-proxy.md")
        .with("127.0.0.1:3128", &proxy)
        .with("127.0.0.1:3129", &format!("127.0.0.1:{admin}"))
        .with("lucarne proxy", &started)
        .with("host: www.example.com", "host: page.test")
        .with("https://www.example.com/", &page)
        .with(
            &format!("{proxy} {page}"),
            &format!("{proxy} --cacert website-ca.pem {page}"),
        );
    let file = recipe.directory.path().join("website-ca.pem");
    fs::write(file, pki().roots_pem()).unwrap();
    let outputs = follow(&recipe, &recipe.blocks, |block| start(&recipe, block, port));
    let [intercepted, hosts, _, _, tunnelled] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    assert_has(intercepted, "CN=Lucarne proxy CA");
    assert_has(intercepted, "page.test /");
    assert_has(hosts, "page.test");
    assert_has(tunnelled, "page.test /");
    assert!(!tunnelled.contains("Lucarne proxy CA"), "{tunnelled}");
}

/// Runs the blocks in order, and returns the outputs of those that end. `serve` starts a server,
/// which runs until the next server or the end of the page.
fn follow(recipe: &Recipe, blocks: &[String], serve: impl Fn(&str) -> Server) -> Vec<String> {
    let stop = |running: Option<Server>| {
        if let Some(mut server) = running {
            assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
        }
    };
    let (mut running, mut outputs) = (None, Vec::new());
    for block in blocks {
        if block.starts_with("lucarne serve") || block.starts_with("lucarne proxy") {
            stop(running.take());
            running = Some(serve(block));
            continue;
        }
        let output = recipe.shell(block).run().unwrap();
        assert!(output.status.success(), "{block}\n{}", all(&output));
        outputs.push(all(&output));
    }
    stop(running);
    outputs
}

fn start(recipe: &Recipe, block: &str, port: u16) -> Server {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let launch = recipe.shell(&format!("exec {block}"));
    launch.start(address).unwrap()
}

fn assert_proven(output: &str) {
    assert_has(output, "proven, 0 late, 0 missing");
    assert!(!output.contains(" 0 entries promised"), "{output}");
}

fn wait_until_healthy(port: u16) {
    let client = Client::new(format!("http://127.0.0.1:{port}"));
    run(eventually("the log is healthy", async || {
        let response = client.get("health").await;
        response.is_ok_and(|response| response.status == 200)
    }));
}

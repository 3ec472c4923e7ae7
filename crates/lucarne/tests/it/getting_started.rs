//! The commands of `docs/getting-started.md`, from an empty directory to a load test and an
//! intercepted request.

use std::net::SocketAddr;

use crate::common::{EVENT_TIMEOUT, all, assert_has, eventually, pki, run};
use crate::deploy::Recipe;
use crate::proxy_clients::site;
use lucarne_testkit::{Client, free_port};

#[test]
fn from_nothing_to_an_intercepted_request() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let website = runtime.block_on(site(&["http/1.1"], Default::default()));
    let (log, proxy) = (free_port(), free_port());
    let proxied = format!(
        "lucarne proxy --listen 127.0.0.1:{proxy} --allow-private --resolve '*.test=127.0.0.1' \
         --upstream-ca website-ca.pem"
    );
    let recipe = Recipe::read_as_it_is("getting-started.md")
        .with("127.0.0.1:6962", &format!("127.0.0.1:{log}"))
        .with("127.0.0.1:3128", &format!("127.0.0.1:{proxy}"))
        .with("lucarne proxy", &proxied)
        .with(
            "https://www.example.com/",
            &format!("https://page.test:{}/", website.port()),
        )
        .with("--rate 100 --duration 10s", "--rate 10 --duration 2s");
    let file = |name: &str| recipe.directory.path().join(name);
    std::fs::write(file("website-ca.pem"), pki().roots_pem()).unwrap();
    let mut servers = Vec::new();
    let mut outputs = Vec::new();
    for block in &recipe.blocks {
        let port = match block.split_whitespace().nth(1) {
            Some("serve") => log,
            Some("proxy") => proxy,
            _ => {
                let output = recipe.shell(block).run().unwrap();
                assert!(output.status.success(), "{block}\n{}", all(&output));
                outputs.push(all(&output));
                continue;
            }
        };
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let launch = recipe.shell(&format!("exec {block}"));
        servers.push(launch.start(address).unwrap());
        if port == log {
            wait_until_healthy(log);
        }
    }
    let promised: Vec<_> = outputs
        .iter()
        .filter(|text| text.contains("proven, 0 late, 0 missing"))
        .collect();
    assert_eq!(promised.len(), 2, "{outputs:?}");
    for text in promised {
        assert!(!text.contains(" 0 entries promised"), "{text}");
    }
    assert!(file("report.html").exists());
    let last = outputs.last().unwrap();
    assert_has(last, "CN=Lucarne proxy CA");
    assert_has(last, "page.test /");
    assert_eq!(servers.len(), 2);
    for server in &mut servers {
        assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    }
}

fn wait_until_healthy(port: u16) {
    let client = Client::new(format!("http://127.0.0.1:{port}"));
    run(eventually("the log is healthy", async || {
        let response = client.get("health").await;
        response.is_ok_and(|response| response.status == 200)
    }));
}

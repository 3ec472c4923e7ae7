//! nginx on a log's directory, for comparison.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use lucarne_testkit::{Launch, Server, free_port};

pub(crate) struct Nginx {
    pub(crate) address: SocketAddr,
    pub(crate) server: Server,
}

/// The binary, wherever Debian or a package manager of choice puts it.
pub(crate) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let mut all = std::env::split_paths(&path).chain(usual);
    all.find_map(|directory| Some(directory.join("nginx")).filter(|file| file.is_file()))
}

/// Serves `data` the way `docs/nginx.md` says, in one process on one core.
pub(crate) fn start(data: &Path, scratch: &Path, core: Option<usize>) -> Result<Option<Nginx>> {
    let Some(binary) = find() else {
        println!("nginx is not installed, nothing to compare with: apt-get install nginx-light");
        return Ok(None);
    };
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let file = scratch.join("nginx.conf");
    fs::write(&file, configuration(data, scratch, address))?;
    let server = Launch::new(binary)
        .arg("-c")
        .arg(&file)
        .arg("-p")
        .arg(scratch)
        .pin(core)
        .start(address)
        .context("nginx did not start")?;
    Ok(Some(Nginx { address, server }))
}

fn configuration(data: &Path, scratch: &Path, address: SocketAddr) -> String {
    let (data, scratch) = (data.display(), scratch.display());
    // One process, so that its CPU is all there is; no log, no limits on
    // kept-alive connections: nginx at its best.
    format!(
        "daemon off;
master_process off;
pid {scratch}/nginx.pid;
error_log {scratch}/nginx.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    client_body_temp_path {scratch};
    proxy_temp_path {scratch};
    fastcgi_temp_path {scratch};
    uwsgi_temp_path {scratch};
    scgi_temp_path {scratch};
    default_type application/octet-stream;
    server {{
        listen {address};
        root {data};
        location / {{ add_header Cache-Control 'public, max-age=604800, immutable'; }}
        location = /checkpoint {{
            default_type 'text/plain; charset=utf-8';
            add_header Cache-Control 'no-store';
        }}
        location /tile/data/ {{
            add_header Content-Encoding gzip;
            add_header Cache-Control 'public, max-age=604800, immutable';
        }}
    }}
}}
"
    )
}

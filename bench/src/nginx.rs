//! nginx as a server of a log's directory, for comparison.

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

/// Returns the path of the binary, as installed by Debian or another package manager.
pub(crate) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let mut all = std::env::split_paths(&path).chain(usual);
    all.find_map(|directory| Some(directory.join("nginx")).filter(|file| file.is_file()))
}

/// Files with a certificate and its key, in PEM.
pub(crate) struct CertificateFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// Serves `data` as `docs/how-to/nginx.md` describes, in one process on one core; over TLS, also
/// with HTTP/2, if there is a certificate.
pub(crate) fn start(
    data: &Path,
    scratch: &Path,
    tls: Option<&CertificateFiles>,
    core: Option<usize>,
) -> Result<Option<Nginx>> {
    let Some(binary) = find() else {
        println!("nginx is not installed, nothing to compare with: apt-get install nginx-light");
        return Ok(None);
    };
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let file = scratch.join("nginx.conf");
    fs::write(&file, configuration(data, scratch, tls, address))?;
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

fn configuration(
    data: &Path,
    scratch: &Path,
    tls: Option<&CertificateFiles>,
    address: SocketAddr,
) -> String {
    let (data, scratch) = (data.display(), scratch.display());
    let (listen, files) = match tls {
        None => ("", String::new()),
        Some(files) => {
            let (certificate, key) = (files.certificate.display(), files.key.display());
            let files = format!("ssl_certificate {certificate}; ssl_certificate_key {key};");
            (" ssl http2", files)
        }
    };
    // The best case for nginx: no log, no limits on keep-alive connections, and immutable files
    // stay open. One process uses all of the CPU. nginx must not serve a stale checkpoint.
    format!(
        "daemon off;
master_process off;
pid {scratch}/nginx.pid;
error_log {scratch}/nginx.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    sendfile on;
    open_file_cache max=10000 inactive=1h;
    open_file_cache_valid 1h;
    tcp_nopush on;
    keepalive_requests 1000000000;
    client_body_temp_path {scratch};
    proxy_temp_path {scratch};
    fastcgi_temp_path {scratch};
    uwsgi_temp_path {scratch};
    scgi_temp_path {scratch};
    default_type application/octet-stream;
    server {{
        listen {address}{listen};
        ssl_protocols TLSv1.3;
        {files}
        root {data};
        location / {{ add_header Cache-Control 'public, max-age=604800, immutable'; }}
        location = /checkpoint {{
            open_file_cache off;
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

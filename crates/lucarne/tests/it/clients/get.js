// get.js PROXY-HOST PROXY-PORT HOST PORT: prints the HTTPS response through the proxy, or why not.
const [proxy, proxyPort, host, port] = process.argv.slice(2);
const http = require('http'), https = require('https'), tls = require('tls');
const failed = error => { console.log(`failed: ${error.code}`); process.exit(0); };
const tunnel = http.request({ host: proxy, port: proxyPort, method: 'CONNECT', path: `${host}:${port}` });
tunnel.on('connect', (_, socket) => {
  const createConnection = () => tls.connect({ socket, servername: host });
  const request = https.get({ host, port, path: '/x', createConnection }, answer => {
    answer.on('data', data => { console.log(`${answer.statusCode} ${data}`); process.exit(0); });
  });
  request.on('error', failed);
});
tunnel.on('error', failed);
tunnel.end();

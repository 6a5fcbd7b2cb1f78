// Starts a carve up with a state folder of its own for a test file, asks it and changes it from outside the page, and ends it.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const program = process.env.CARVE ?? 'carve';
const run = promisify(execFile);

/** Programs of tests must not look at the cluster of whoever runs them. */
function environment(state) {
  const { KUBECONFIG, CARVE_STATE_DIR, CARVE_UP_LISTEN, CARVE_MACHINE, ...rest } = process.env;
  return { ...rest, XDG_STATE_HOME: state };
}

export class Carve {
  /** Starts it; `flags` are those of `carve up` without `--listen`. */
  static async up(...flags) {
    const carve = new Carve();
    await carve.prepare(...flags);
    await carve.start('127.0.0.1:0');
    return carve;
  }

  /** Gives it a folder, without starting it. */
  async prepare(...flags) {
    this.folder = await mkdtemp(join(tmpdir(), 'carve-page-'));
    this.flags = flags;
  }

  /** Starts the process, on the same state and, after the first time, on the same port. */
  async start(listen = new URL(this.url).host) {
    const began = performance.now();
    this.process = spawn(program, ['up', '--listen', listen, ...this.flags], { env: environment(this.folder), stdio: ['ignore', 'ignore', 'pipe'] });
    this.said = '';
    this.url = await new Promise((resolve, reject) => {
      this.process.stderr.on('data', (data) => {
        this.said += data;
        const found = /page\s+(http:\/\/\S+)\s/.exec(this.said);
        if (found) resolve(`${found[1].replace(/\/$/, '')}/`);
      });
      this.process.once('error', reject);
      this.process.once('exit', (code) => reject(new Error(`carve up ended with ${code}: ${this.said}`)));
    });
    this.startedIn = performance.now() - began;
  }

  /** As when the machine takes it away. */
  async kill() {
    this.process.kill('SIGKILL');
    if (this.process.exitCode === null && this.process.signalCode === null) await once(this.process, 'exit');
  }

  async stop() {
    await this.kill();
    await rm(this.folder, { recursive: true, force: true });
  }

  async fetch(path, options) {
    return fetch(`${this.url}api/v1/${path}`, options);
  }

  /** What the API says. */
  async get(path) {
    const response = await this.fetch(path);
    if (!response.ok) throw new Error(`${this.url} ${path}: ${response.status} ${await response.text()}`);
    return response.json();
  }

  async picture() {
    return (await this.get('picture')).picture;
  }

  async post(path, body) {
    const response = await this.fetch(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
    return response.json();
  }

  /** A verb of the command line, on the same state. */
  async verb(...words) {
    return (await run(program, words, { env: environment(this.folder), timeout: 60_000 })).stdout;
  }

  async apply(yaml) {
    const file = join(this.folder, 'applied.yaml');
    await writeFile(file, yaml);
    return this.verb('apply', '-f', file);
  }

  /** A file beside its state. */
  async write(name, text) {
    const path = join(this.folder, name);
    await writeFile(path, text, { mode: 0o600 });
    return path;
  }

  /** Processor seconds and memory so far, where the system says. */
  async burden() {
    if (!existsSync('/proc')) return { seconds: NaN, mebibytes: NaN };
    const { readFile } = await import('node:fs/promises');
    const stat = (await readFile(`/proc/${this.process.pid}/stat`, 'utf8')).split(') ')[1].split(' ');
    const status = await readFile(`/proc/${this.process.pid}/status`, 'utf8');
    return { seconds: (Number(stat[11]) + Number(stat[12])) / 100, mebibytes: Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)[1]) / 1024) };
  }
}

/** A Deployment as people write it. */
export function deployment(name, { replicas = 1, limits, annotations, labels, container = 'main' } = {}) {
  const line = (words) => Object.entries(words).map(([key, value]) => `${key}: ${JSON.stringify(String(value))}`).join(', ');
  return `apiVersion: apps/v1
kind: Deployment
metadata:
  name: ${name}
  namespace: default${labels ? `\n  labels: {${line(labels)}}` : ''}
spec:
  replicas: ${replicas}
  selector: {matchLabels: {app: ${name}}}
  template:
    metadata:
      labels: {app: ${name}}${annotations ? `\n      annotations: {${line(annotations)}}` : ''}
    spec:
      containers:
      - name: ${container}
        image: registry.k8s.io/pause:3.10${limits ? `\n        resources: {limits: {${line(limits)}}}` : ''}
`;
}

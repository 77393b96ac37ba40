"""As family_templates.py: templates of families of hybrid models."""

# Parts counted by a macro over namespaces, calls as parameters between tags, neighbours in the loop, reasoning kept or
# dropped by switches (as Qwen3.5, 3.6 and 3.8 do it).
PARAMETERS = r"""{%- set pictures = namespace(count=0) %}
{%- macro show(content, counts, is_system=false) %}
    {%- if content is string %}
        {{- content }}
    {%- elif content is iterable and content is not mapping %}
        {%- for part in content %}
            {%- if 'image' in part or 'image_url' in part or part.type == 'image' %}
                {%- if is_system %}
                    {{- raise_exception('no pictures in a system message') }}
                {%- endif %}
                {%- if counts %}
                    {%- set pictures.count = pictures.count + 1 %}
                {%- endif %}
                {%- if number_pictures %}
                    {{- 'Picture ' ~ pictures.count ~ ': ' }}
                {%- endif %}
                {{- '<|picture|>' }}
            {%- elif 'text' in part %}
                {{- part.text }}
            {%- else %}
                {{- raise_exception('a part of another kind') }}
            {%- endif %}
        {%- endfor %}
    {%- elif content is none or content is undefined %}
        {{- '' }}
    {%- else %}
        {{- raise_exception('a content of another kind') }}
    {%- endif %}
{%- endmacro %}
{%- if not messages %}
    {{- raise_exception('no messages') }}
{%- endif %}
{%- set effort = reasoning_effort|default('high') %}
{%- if effort not in ('high', 'medium', 'low') %}
    {{- raise_exception('unknown effort ' ~ reasoning_effort) }}
{%- endif %}
{%- set asked = '' if effort == 'medium' else 'Effort: ' ~ effort %}
{%- if tools and tools is iterable and tools is not mapping %}
    {{- '<|im_start|>system\n' }}
    {{- "Functions:\n\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools>" }}
    {{- '\n\nCall them so:\n<tool_call>\n<function=name>\n<parameter=name>\nvalue\n</parameter>\n</function>\n</tool_call>' }}
    {%- if messages[0].role == 'system' %}
        {%- set content = show(messages[0].content, false, true)|trim %}
        {%- if content %}
            {{- '\n\n' + content }}
        {%- endif %}
    {%- endif %}
    {{- '<|im_end|>\n' }}
{%- elif messages[0].role == 'system' %}
    {%- set content = show(messages[0].content, false, true)|trim %}
    {{- '<|im_start|>system\n' + [asked, content]|select|join('\n\n') + '<|im_end|>\n' }}
{%- endif %}
{%- set ns = namespace(is_searching=true, last_query=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.is_searching and message.role == "user" %}
        {%- set content = show(message.content, false)|trim %}
        {%- if not(content.startswith('<tool_response>') and content.endswith('</tool_response>')) %}
            {%- set ns.is_searching = false %}
            {%- set ns.last_query = index %}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if ns.is_searching %}
    {{- raise_exception('nobody asks') }}
{%- endif %}
{%- for message in messages %}
    {%- set content = show(message.content, true)|trim %}
    {%- if message.role == "system" %}
        {%- if not loop.first %}
            {{- raise_exception('a late system message') }}
        {%- endif %}
    {%- elif message.role == "user" %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {%- set reasoning = reasoning|trim %}
        {%- if (keep_thinking is defined and keep_thinking is true) or loop.index0 > ns.last_query %}
            {{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning + '\n</think>\n\n' + content }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {%- if message.tool_calls and message.tool_calls is iterable and message.tool_calls is not mapping %}
            {%- for call in message.tool_calls %}
                {%- if call.function is defined %}
                    {%- set call = call.function %}
                {%- endif %}
                {{- ('\n\n' if loop.first and content|trim else '' if loop.first else '\n') + '<tool_call>\n<function=' + call.name + '>\n' }}
                {%- if call.arguments is defined %}
                    {%- for name, value in call.arguments|items %}
                        {{- '<parameter=' + name + '>\n' }}
                        {%- set value = value | tojson | safe if value is mapping or (value is sequence and value is not string) else value | string %}
                        {{- value }}
                        {{- '\n</parameter>\n' }}
                    {%- endfor %}
                {%- endif %}
                {{- '</function>\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.previtem and loop.previtem.role != "tool" %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' }}
        {{- content }}
        {{- '\n</tool_response>' }}
        {%- if not loop.last and loop.nextitem.role != "tool" %}
            {{- '<|im_end|>\n' }}
        {%- elif loop.last %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- else %}
        {{- raise_exception('an unknown role') }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- else %}
        {{- '<think>\n' }}
    {%- endif %}
{%- endif %}"""
